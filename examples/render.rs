//! Prints the CUDA source of a family's default configuration, or of one given as `NAME=VALUE`s:
//!
//! `cargo run --example render -- blocktile 4096x4096x1024 nn BM=64`

use gemm_tune::model::{Device, Dtype, Problem, Value};
use gemm_tune::render::{Templates, render};
use gemm_tune::space::Families;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [family, shape, layout, settings @ ..] = &arguments[..] else {
        return Err("usage: render FAMILY MxNxK LAYOUT [NAME=VALUE]...".into());
    };
    let problem = Problem { layout: layout.parse()?, ..Problem::new(shape.parse()?, Dtype::F32) };
    let device = Device::h200();
    let families = Families::built_in()?;
    let family = families.get(family)?;
    let mut configuration =
        family.default_for(&problem, &device)?.ok_or("no default is legal for this shape")?;
    for setting in settings {
        let (name, value) = setting.split_once('=').ok_or("write NAME=VALUE")?;
        let value = match (value.parse(), value.parse()) {
            (Ok(number), _) => Value::Int(number),
            (_, Ok(switch)) => Value::Bool(switch),
            _ => Value::Text(value.to_owned()),
        };
        configuration.0.insert(name.to_owned(), value);
    }
    if let Some(constraint) = family.violated(&configuration, &problem, &device)? {
        return Err(format!("not legal: {}", constraint.because).into());
    }
    let rendered = render(family, &Templates::built_in()?, &configuration, &problem, &device)?;
    #[expect(clippy::print_stdout, reason = "an example shows its result")]
    {
        println!("{}", rendered.source);
    }
    Ok(())
}
