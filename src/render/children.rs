//! Rendering in child processes, for templates that came from a user's folder: one whose loops do not
//! end, or whose text fills the memory, costs one configuration.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tera::{Context, Tera, Value};

use super::language::{engine_error, language};
use super::marks::marked_engine;
use crate::process::{
    ChildCommand, ChildError, ChildPool, ParentPipe, confine, leave_folder, limit_resources,
    read_frame, write_frame,
};

/// Protocol version, raised with every change of a message.
const VERSION: u32 = 2;

/// Address space of a child.
const ADDRESS_SPACE: u64 = 1 << 30;

/// Longest text: the largest kernel of a family has 100 kB.
const MAX_BYTES: usize = 64 << 20;

/// Time limit of a configuration: the slowest kernel of a family takes 10 ms.
const LIMIT: Duration = Duration::from_secs(10);

/// How templates are rendered in children.
#[derive(Debug, Clone)]
pub struct RenderChildren {
    /// Command of a program that calls [`serve_templates`](super::serve_templates).
    pub command: ChildCommand,
    /// Ends all rendering once set.
    pub interrupted: Arc<AtomicBool>,
}

/// First message: all templates with their names.
#[derive(Debug, Serialize, Deserialize)]
struct RenderOpening {
    version: u32,
    templates: Vec<(String, String)>,
}

/// A template to render, with the values that it sees.
#[derive(Debug, Serialize, Deserialize)]
struct RenderOrder {
    template: String,
    marking: Marking,
    values: BTreeMap<String, TemplateValue>,
}

/// Whether a text has marks that tell where its pieces come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Marking {
    Off,
    On,
}

/// A value that a template sees.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) enum TemplateValue {
    Bool(bool),
    Int(i64),
    /// An integer beyond 64 bits, in decimal digits: JSON has no such number.
    Long(String),
    Float(f64),
    Text(String),
}

/// Answer to an order; the text is the body of the frame.
#[derive(Debug, Serialize, Deserialize)]
enum RenderAnswer {
    Rendered,
    Wrong(EngineError),
    Unusable { why: String },
}

/// An error of the engine: file, message and place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct EngineError {
    /// The template, where the engine names it.
    pub(super) template: Option<String>,
    pub(super) message: String,
    pub(super) span: Range<usize>,
    /// Name of another template that the template refers to, where the engine gives no span.
    pub(super) name: Option<String>,
}

/// Why a child gave no text.
#[derive(Debug)]
pub(super) enum RenderFailure {
    Engine(EngineError),
    Child(ChildError),
}

/// Children that render one set of templates.
#[derive(Debug)]
pub(super) struct ChildRenderer {
    pool: ChildPool<RenderAnswer>,
}

impl ChildRenderer {
    pub(super) fn new(
        children: RenderChildren,
        templates: impl Iterator<Item = (String, String)>,
    ) -> Self {
        let opening = RenderOpening { version: VERSION, templates: templates.collect() };
        let opening = serde_json::to_value(opening).unwrap_or_default();
        Self { pool: ChildPool::new(children.command, opening, children.interrupted) }
    }

    pub(super) fn render(
        &self,
        template: &str,
        values: BTreeMap<String, TemplateValue>,
        marking: Marking,
    ) -> Result<String, RenderFailure> {
        let order = RenderOrder { template: template.to_owned(), marking, values };
        let answer = self.pool.ask(&order, &[], LIMIT, &AtomicBool::new(false));
        match answer.map_err(RenderFailure::Child)? {
            (RenderAnswer::Rendered, text) => Ok(String::from_utf8_lossy(&text).into_owned()),
            (RenderAnswer::Wrong(error), _) => Err(RenderFailure::Engine(error)),
            (RenderAnswer::Unusable { why }, _) => {
                Err(RenderFailure::Child(ChildError::Unavailable { why }))
            }
        }
    }
}

/// The engine's form of values.
pub(super) fn context(values: BTreeMap<String, TemplateValue>) -> Context {
    let mut context = Context::new();
    for (name, value) in values {
        let value = match value {
            TemplateValue::Bool(value) => Value::from(value),
            TemplateValue::Int(value) => Value::from(value),
            TemplateValue::Long(digits) => match digits.parse::<i128>() {
                Ok(value) => Value::from(value),
                Err(_) => Value::normal_string(&digits),
            },
            TemplateValue::Float(value) => Value::from(value),
            TemplateValue::Text(text) => Value::normal_string(&text),
        };
        context.insert_value(name, value);
    }
    context
}

/// Renders what the parent sends until its pipe closes: the main function of a child.
///
/// # Errors
/// The pipe to the parent broke or delivered garbage.
pub fn serve_templates() -> io::Result<()> {
    limit_resources(ADDRESS_SPACE);
    let ParentPipe { mut input, mut output } = ParentPipe::open()?;
    let Some((RenderOpening { version, templates }, _)) = read_frame(&mut input)? else {
        return Ok(());
    };
    // The templates came with the message: no file is needed.
    leave_folder();
    confine(&[]);
    let mut engine = language();
    let texts = || templates.iter().map(|(name, text)| (name.as_str(), text.as_str()));
    let unusable = if version == VERSION {
        engine.add_raw_templates(texts()).err().map(|error| error.to_string())
    } else {
        Some(format!("this program has protocol version {VERSION}, its parent {version}"))
    };
    let marked = LazyCell::new(|| marked_engine(texts()));
    while let Some((order, _)) = read_frame::<RenderOrder>(&mut input)? {
        let answer = match &unusable {
            Some(why) => Err(RenderAnswer::Unusable { why: why.clone() }),
            None if order.marking == Marking::On => match &*marked {
                Some(marked) => render(marked, order).map_err(RenderAnswer::Wrong),
                None => Err(RenderAnswer::Unusable { why: "marks break a template".to_owned() }),
            },
            None => render(&engine, order).map_err(RenderAnswer::Wrong),
        };
        match answer {
            Ok(text) => write_frame(&mut output, &RenderAnswer::Rendered, text.as_bytes())?,
            Err(answer) => write_frame(&mut output, &answer, &[])?,
        }
    }
    Ok(())
}

fn render(engine: &Tera, order: RenderOrder) -> Result<String, EngineError> {
    let text = engine.render(&order.template, &context(order.values));
    let text = text.map_err(|error| engine_error(&error))?;
    if text.len() <= MAX_BYTES {
        return Ok(text);
    }
    Err(EngineError {
        template: None,
        message: format!("the text has {} bytes, the most are {MAX_BYTES}", text.len()),
        span: 0..0,
        name: None,
    })
}
