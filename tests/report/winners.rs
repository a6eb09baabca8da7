//! The page of the committed database: its size, its tables, its roofline and its sources, and that it fits windows.

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;

use gemm_tune::database::Database;
use serde_json::{Value, json};

use super::browser::{between, browse, chromium_or_skip};
use crate::support::program::gemm_tune;

const DATABASE: &str = "results/nvidia-h200.toml";

/// The page of 225 problems stays below this.
const MAX_BYTES: usize = 1_500_000;

/// The page, made once.
fn report() -> &'static str {
    static PAGE: OnceLock<String> = OnceLock::new();
    PAGE.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let page = folder.path().join("report.html");
        let cache = folder.path().join("cache");
        let arguments = ["report", "--cache", cache.to_str().unwrap(), "--db", DATABASE, "-o"];
        let said = gemm_tune(&[&arguments[..], &[page.to_str().unwrap()]].concat());
        assert_eq!(said.code, Some(0), "{}", said.err);
        fs::read_to_string(&page).unwrap()
    })
}

/// Cells of the rows in the table of winners.
fn rows() -> Vec<Vec<String>> {
    let table = between(report(), "filterable winners\">", "</table>");
    let cell = |text: &str| {
        let text = text.split("</td>").next().unwrap_or_default();
        let text = text.rsplit_once("</a>").map_or(text, |(text, _)| text);
        text.rsplit('>').next().unwrap_or_default().to_owned()
    };
    table
        .split("</tr>")
        .filter(|row| row.contains("</td>"))
        .map(|row| row.split("<td").skip(1).map(cell).collect())
        .collect()
}

/// Runs `script`, the body of an async function that returns a value, in the page, in a window of a width.
fn probe(page: &str, script: &str, width: u32) -> Option<Value> {
    let chromium = chromium_or_skip()?;
    let folder = tempfile::tempdir().unwrap();
    let probed: PathBuf = folder.path().join("probed.html");
    let script = format!(
        "<script>
const until = async (done) => {{ for (let i = 0; i < 200 && !done(); i++) await new Promise((next) => setTimeout(next, 20)); }};
addEventListener('load', async () => {{
  let said;
  try {{ said = await (async () => {{ {script} }})(); }} catch (error) {{ said = String(error); }}
  const out = document.createElement('pre');
  out.id = 'probe';
  out.textContent = encodeURIComponent(JSON.stringify(said)).replaceAll('%', '\\\\x');
  document.body.append(out);
}});
</script></body>"
    );
    fs::write(&probed, page.replace("</body>", &script)).unwrap();
    let (document, console) = browse(&chromium, &probed, width);
    assert!(console.is_empty(), "{console:#?}");
    let text = between(&document, "<pre id=\"probe\">", "</pre>").replace("\\x", "%");
    Some(serde_json::from_str(&decoded(&text)).unwrap())
}

/// Decodes `%22` and the like.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits: Vec<u8> = rest.by_ref().take(2).collect();
            let digits = String::from_utf8(digits).unwrap();
            bytes.push(u8::from_str_radix(&digits, 16).unwrap());
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn a_page_of_all_problems_is_small() {
    let records = Database::load(DATABASE.as_ref()).unwrap().records().len();
    assert!(records >= 225, "{records}");
    assert_eq!(rows().len(), records);
    assert!(report().len() < MAX_BYTES, "{} bytes", report().len());
}

#[test]
fn the_roofline_has_each_record_below_the_roof() {
    let plot = between(report(), "data-plot=\"roofline\"", "</svg>");
    assert_eq!(plot.matches("<circle").count(), rows().len());
    assert_eq!(plot.matches("% of the roof</title>").count(), rows().len());
    assert!(plot.contains("limits: 4.8 TB/s, 66.91 TFLOP/s"));
    assert!(plot.contains("4096x4096x1024 f32 nn: "));
    for row in rows() {
        let [of_peak, of_roof] = [4, 5].map(|at| row[at].parse::<f64>().unwrap());
        assert!(of_peak - 0.11 <= of_roof && of_roof <= 100.0, "{row:?}");
    }
}

#[test]
fn tables_are_sorted_and_filtered() {
    let script = r##"
        const table = document.querySelector("table.winners"), field = document.querySelector("input[type=search]");
        const heads = [...table.tHead.rows[0].cells];
        const head = heads.find((head) => head.dataset.name === "time"), button = head.querySelector("button");
        const column = () => [...table.tBodies[0].rows].map((row) => Number(row.cells[2].dataset.sort));
        const sorts = [column()];
        for (let i = 0; i < 3; i++) { button.click(); sorts.push(head.getAttribute("aria-sort"), column()); }
        heads[0].querySelector("button").click();
        const others = heads.map((head) => head.getAttribute("aria-sort"));
        const names = [...table.tBodies[0].rows].slice(0, 3).map((row) => row.cells[0].textContent);
        button.focus();
        const shown = (text) => {
          field.value = text;
          field.dispatchEvent(new Event("input"));
          return [...table.tBodies[0].rows].filter((row) => row.checkVisibility()).length;
        };
        const filtered = ["", "skinny", "speedup<1", "PIPELINED tflops>=40", "speedup>=0", "nothing"].map(shown);
        const status = document.querySelector("#winners [role=status]").textContent;
        shown("");
        const box = table.closest(".scroll");
        box.scrollTop = 900;
        const at = (element) => Math.round(element.getBoundingClientRect().top);
        return { sorts, others, names, focused: document.activeElement === button, filtered, status, scrolled: box.scrollTop, sticky: at(heads[1]) - at(box) };
    "##;
    let Some(said) = probe(report(), script, 1280) else { return };
    let times = |at: usize| -> Vec<f64> {
        said["sorts"][at].as_array().unwrap().iter().map(|time| time.as_f64().unwrap()).collect()
    };
    let original = times(0);
    let mut sorted = original.clone();
    sorted.sort_by(f64::total_cmp);
    assert_ne!(original, sorted);
    assert_eq!((&said["sorts"][1], times(2)), (&json!("ascending"), sorted.clone()));
    sorted.reverse();
    assert_eq!((&said["sorts"][3], times(4)), (&json!("descending"), sorted));
    assert_eq!((&said["sorts"][5], times(6)), (&json!("none"), original));
    let none = "none";
    assert_eq!(said["others"], json!(["ascending", none, none, none, none, none, none, null]));
    let first = said["names"][0].as_str().unwrap();
    assert!(first.starts_with("1x"), "extents are compared as numbers: {first}");
    assert_eq!(said["focused"], true, "a header takes the focus");

    let count =
        |matches: &dyn Fn(&Vec<String>) -> bool| rows().iter().filter(|row| matches(row)).count();
    let number = |row: &Vec<String>, at: usize| row[at].parse::<f64>().unwrap_or(f64::NAN);
    let expected = [
        rows().len(),
        count(&|row| row[1] == "skinny"),
        count(&|row| number(row, 6) < 1.0),
        count(&|row| row[1] == "pipelined" && number(row, 3) >= 40.0),
        count(&|row| number(row, 6) >= 0.0),
        0,
    ];
    assert!(expected[1] > 0 && expected[2] > 0 && expected[3] > 0, "{expected:?}");
    assert_eq!(said["filtered"], json!(expected));
    assert_eq!(said["status"], json!(format!("0 of {} rows", rows().len())));
    assert_eq!((&said["scrolled"], &said["sticky"]), (&json!(900), &json!(0)), "the header stays");
}

#[test]
fn nothing_is_wider_than_the_window() {
    // Sections are open; what lies in a box that scrolls, or is drawn, is cut by that.
    let script = r##"
        for (const details of document.querySelectorAll(".case > details")) details.open = true;
        const source = document.querySelector("details.source");
        source.open = true;
        await until(() => source.querySelector("pre").checkVisibility());
        const wide = [...document.body.querySelectorAll("*")].filter((element) =>
          !element.parentElement.closest(".scroll, pre, svg") && element.getBoundingClientRect().right > innerWidth + 0.5);
        return { wide: wide.map((element) => element.outerHTML.slice(0, 120)), inner: innerWidth, fits: document.documentElement.scrollWidth <= innerWidth };
    "##;
    for width in [500, 1280] {
        let Some(said) = probe(report(), script, width) else { return };
        assert_eq!(said, json!({ "wide": [], "inner": width, "fits": true }));
    }
}

#[test]
fn sources_are_unpacked_when_they_are_opened() {
    let script = r##"
        const all = [...document.querySelectorAll("details.source")], [first, last] = [all[0], all.at(-1)];
        document.querySelectorAll(".case > details").forEach((details) => { details.open = true; });
        const before = first.querySelector("pre").hidden;
        for (const details of [first, last]) {
          details.open = true;
          await until(() => !details.querySelector("pre").hidden || details.querySelector(".note").textContent.includes("("));
        }
        const text = (details) => details.querySelector("pre > code").textContent;
        const note = first.querySelector(".note");
        return { count: all.length, before, texts: [text(first), text(last)], note: note.checkVisibility(), words: note.textContent };
    "##;
    let Some(said) = probe(report(), script, 1280) else { return };
    assert_eq!((&said["count"], &said["before"]), (&json!(rows().len()), &json!(true)));
    for text in said["texts"].as_array().unwrap() {
        let text = text.as_str().unwrap();
        assert!(text.contains("extern \"C\" __global__") && text.contains("\n"), "{text}");
    }
    assert_eq!(said["note"], false);

    let without = "<script>delete globalThis.DecompressionStream</script></head>";
    let old = report().replace("</head>", without);
    let said = probe(&old, script, 1280).unwrap();
    assert_eq!((&said["texts"][0], &said["note"]), (&json!(""), &json!(true)));
    let words = said["words"].as_str().unwrap();
    assert!(
        words.contains("gemm-tune inspect") && words.contains("DecompressionStream"),
        "{words}"
    );
}
