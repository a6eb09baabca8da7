//! Progress through a known number of items: a bar on a terminal, a line now and then elsewhere. The progress of a search,
//! whose end is unknown, is in `progress.rs`.

use std::time::{Duration, Instant};

use indicatif::ProgressStyle;

use super::console::{Console, Volume};

/// How often a plain line is written.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Progress through a known number of items.
pub(super) struct CountProgress {
    console: Console,
    bar: indicatif::ProgressBar,
    /// The word for a finished item, such as `executed`.
    done: &'static str,
    total: usize,
    began: Instant,
    last_line: Instant,
}

impl CountProgress {
    /// Nothing is drawn before [`Self::expect`].
    pub(super) fn new(console: Console, done: &'static str) -> Self {
        let bar = if console.interactive() {
            indicatif::ProgressBar::no_length()
        } else {
            indicatif::ProgressBar::hidden()
        };
        let now = Instant::now();
        Self { console, bar, done, total: 0, began: now, last_line: now }
    }

    /// Sets the number of items. A new number restarts the progress.
    pub(super) fn expect(&mut self, total: usize) {
        if self.total == total {
            return;
        }
        self.total = total;
        self.began = Instant::now();
        self.bar.set_length(total as u64);
        let template = format!(
            "{{bar:12}} {{pos}}/{{len}} {}, {{elapsed}}, ETA {{eta}}{{wide_msg}}",
            self.done
        );
        if let Ok(style) = ProgressStyle::with_template(&template) {
            self.bar.set_style(style);
        }
        self.bar.enable_steady_tick(Duration::from_millis(200));
    }

    /// Sets the number of finished items. `besides` is appended: empty, or words after a comma.
    pub(super) fn reach(&mut self, count: usize, besides: &str) {
        self.bar.set_position(count as u64);
        self.bar.set_message(besides.to_owned());
        let due = self.last_line.elapsed() >= LINE_EVERY;
        if self.console.interactive() || self.console.volume != Volume::Normal || !due {
            return;
        }
        self.last_line = Instant::now();
        let left = self.total.saturating_sub(count) as f64 / count.max(1) as f64;
        let eta = self.began.elapsed().as_secs_f64() * left;
        let Self { total, done, .. } = self;
        self.console.note(&format!("{count}/{total} {done}{besides}, ETA {eta:.0} s"));
    }

    /// A line that survives the bar.
    pub(super) fn say(&self, text: &str) {
        self.bar.suspend(|| self.console.note(text));
    }
}

impl Drop for CountProgress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
