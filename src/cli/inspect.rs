//! `gemm-tune inspect`: shows a kernel, or how two differ, without needing a GPU.

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::arguments::{KernelArguments, heading};
use super::console::Console;
use super::failure::Failure;
use super::highlight;
use super::inspect_context::InspectContext;
use super::output::finish;
use crate::compile::CompileTarget;
use crate::inspect::{
    InspectedKernel, InstructionMix, ResourceFigures, difference, harness, picture, traffic,
};
use crate::report::inspected::{self, ComparedKernel};
use crate::report::picture as drawn;

/// Shows the kernel that `lookup` answers with for a shape, or a configuration of a family. It needs no GPU.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  gemm-tune inspect 4096x4096x1024 --device-name h200
  gemm-tune inspect 512 --config FAMILY --emit resources
  gemm-tune inspect 2048 --diff winner FAMILY:NAME=VALUE,NAME=VALUE")]
pub(super) struct InspectArguments {
    /// Shape that the kernel is for, such as 4096x4096x1024, or 512 for a cube [default with --config or --diff: 1024]
    #[arg(value_name = "SHAPE", conflicts_with = "shape")]
    shape_word: Option<String>,
    /// The same as an option
    #[arg(long, value_name = "MxNxK", help_heading = heading::PROBLEM)]
    shape: Option<String>,
    /// Configuration to show instead; what is not named is the family's default
    #[arg(long, value_name = "FAMILY:NAME=VALUE,...")]
    config: Option<String>,
    /// What to show of it
    #[arg(long, value_enum, default_value_t = Emit::Cuda)]
    emit: Emit,
    /// Compare two kernels, each `winner`, which is lookup's answer, or FAMILY:NAME=VALUE,...
    #[arg(long, num_args = 2, value_names = ["X", "Y"], conflicts_with_all = ["config", "emit"])]
    diff: Vec<String>,
    #[command(flatten)]
    of: KernelArguments,
}

/// What is shown of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Emit {
    /// CUDA C++ below a description of its launches, ready to compile
    Cuda,
    /// The same with a program that checks and times it, for nvcc and ncu
    Harness,
    /// What NVRTC makes of it
    Ptx,
    /// Machine code, through nvdisasm
    Sass,
    /// Registers, spills, shared memory, occupancy, waves, floors
    Resources,
    /// Requests, sectors, wavefronts and bank conflicts of every line, executed on the host
    Memory,
    /// Which thread brings which element into which bank, and computes what
    Picture,
    /// The same as a drawing
    Svg,
}

/// The shape for a configuration where none is given.
const SHAPE: &str = "1024x1024x1024";

/// The word for the answer of lookup.
const WINNER: &str = "winner";

/// Shows kernels and gives the exit code.
pub(super) fn main(arguments: &InspectArguments) -> ExitCode {
    let console = Console::new(&arguments.of.common);
    finish(console, run(arguments, console).map(|document| (document, ExitCode::SUCCESS)))
}

fn run(arguments: &InspectArguments, console: Console) -> Result<Value, Failure> {
    let shape = arguments.shape_word.as_deref().or(arguments.shape.as_deref());
    if shape.is_none() && arguments.config.is_none() && arguments.diff.is_empty() {
        return Err(Failure::Usage(
            "nothing to inspect: give a shape, as in `gemm-tune inspect 4096x4096x1024`, or a \
             configuration, as in `--config FAMILY`"
                .to_owned(),
        ));
    }
    let context = InspectContext::new(shape.unwrap_or(SHAPE), &arguments.of, console)?;
    if let [first, second] = &arguments.diff[..] {
        return context.compare([first, second]);
    }
    let subject = match &arguments.config {
        Some(config) => context.configured(config)?,
        None => context.looked_up()?.kernel,
    };
    context.show(&subject, arguments.emit)
}

impl InspectContext {
    /// Shows one aspect of a kernel.
    fn show(&self, subject: &InspectedKernel, emit: Emit) -> Result<Value, Failure> {
        let mut document = inspected::subject_document(subject);
        let style = self.console.table_style();
        let (name, value) = match emit {
            Emit::Cuda => {
                let source = subject.source();
                self.console.code(&source, highlight::cuda);
                ("cuda", json!(source))
            }
            Emit::Harness => {
                let source = harness(subject);
                self.console.code(&source, highlight::cuda);
                ("harness", json!(source))
            }
            Emit::Ptx => {
                let compiled = self.compiled(subject, CompileTarget::Ptx)?;
                let text = subject.description() + &String::from_utf8_lossy(&compiled.image);
                self.console.code(&text, str::to_owned);
                ("ptx", json!(text))
            }
            Emit::Sass => {
                let compiled = self.compiled(subject, CompileTarget::Cubin)?;
                let text = self.workshop.disassemble(&compiled.image, self.console)?;
                self.console.code(&text, str::to_owned);
                ("sass", json!(text))
            }
            Emit::Resources => {
                let (_, figures) = self.figures(subject)?;
                self.console.result(&inspected::figures(subject, &figures, style));
                ("resources", inspected::figures_document(&figures))
            }
            Emit::Memory => {
                let compiled = self.compiled(subject, CompileTarget::Ptx)?;
                let launches = traffic(subject, &compiled.image).map_err(Failure::work)?;
                self.console.result(&inspected::traffic(subject, &launches, style));
                ("memory", inspected::traffic_document(&launches))
            }
            Emit::Picture | Emit::Svg => {
                let compiled = self.compiled(subject, CompileTarget::Ptx)?;
                let picture = picture(subject, &compiled.image).map_err(Failure::work)?;
                let drawn = match emit {
                    Emit::Svg => drawn::svg(subject, &picture),
                    _ => drawn::text(subject, &picture),
                };
                self.console.as_it_is(&drawn);
                ("picture", json!(drawn))
            }
        };
        document[name] = value;
        Ok(document)
    }

    /// Shows how two kernels differ.
    fn compare(&self, names: [&str; 2]) -> Result<Value, Failure> {
        let look =
            |name: &str| -> Result<(InspectedKernel, ResourceFigures, InstructionMix), Failure> {
                let subject = self.named(name)?;
                let (compiled, figures) = self.figures(&subject)?;
                let launches = traffic(&subject, &compiled.image).map_err(Failure::work)?;
                let mix = InstructionMix::of(&launches, &subject.problem);
                Ok((subject, figures, mix))
            };
        let [first, second] = [look(names[0])?, look(names[1])?];
        let difference = difference(&first.0, &second.0);
        let sides = [&first, &second].map(|(subject, figures, mix)| ComparedKernel {
            subject,
            figures,
            mix,
        });
        let text = inspected::comparison(sides, &difference, self.console.table_style());
        self.console.result(&text);
        Ok(inspected::comparison_document(sides, &difference))
    }

    /// `winner`, or `FAMILY:NAME=VALUE,NAME=VALUE`.
    fn named(&self, text: &str) -> Result<InspectedKernel, Failure> {
        if text == WINNER {
            return Ok(self.looked_up()?.kernel);
        }
        self.configured(text)
    }
}
