//! `gemm-tune inspect`: shows a kernel, or how two differ, without needing a GPU.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};

use super::arguments::{Emit, FamilyArguments, InspectArguments};
use super::console::Console;
use super::machine::{Wish, Workshop};
use super::output::finish;
use super::{Failure, highlight, request};
use crate::compile::{Architecture, Compile as _, Compiled, Target};
use crate::database::Database;
use crate::inspect::{Figures, Mix, Subject, difference, figures, picture, traffic};
use crate::model::{Configuration, Device, Problem, Regime};
use crate::render::Templates;
use crate::report::inspected::{self, Side};
use crate::report::picture as drawn;
use crate::space::{Family, LoadError};

/// The shape that a family is looked at for where none is given.
const SHAPE: &str = "1024x1024x1024";

/// The word for what the database has.
const WINNER: &str = "winner";

/// Looks, prints and gives the exit code.
pub(super) fn main(arguments: &InspectArguments) -> ExitCode {
    let console = Console::new(&arguments.common);
    finish(console, run(arguments, console).map(|document| (document, ExitCode::SUCCESS)))
}

fn run(arguments: &InspectArguments, console: Console) -> Result<Value, Failure> {
    let desk = Desk::new(arguments, console)?;
    if let [first, second] = &arguments.diff[..] {
        return desk.compare([first, second]);
    }
    let subject = match (&arguments.family, &arguments.set) {
        (Some(family), set) => desk.chosen(family, set.as_deref().unwrap_or(""))?,
        (None, _) => desk.winner()?,
    };
    desk.show(&subject, arguments.emit)
}

/// What all that is looked at has in common.
struct Desk {
    console: Console,
    workshop: Workshop,
    families: Vec<Family>,
    templates: Templates,
    problem: Problem,
    device: Device,
    database: PathBuf,
}

impl Desk {
    fn new(arguments: &InspectArguments, console: Console) -> Result<Self, Failure> {
        if arguments.shape.is_none() && arguments.family.is_none() && arguments.diff.is_empty() {
            return Err(Failure::Usage(
                "nothing to inspect: give the shape of a recorded winner, as in `--shape \
                 4096x4096x1024`, or a family, as in `--family NAME`"
                    .to_owned(),
            ));
        }
        let shape = arguments.shape.as_deref().unwrap_or(SHAPE);
        let problem = Problem {
            shape: shape.parse().map_err(Failure::usage)?,
            layout: arguments.layout.parse().map_err(Failure::usage)?,
            ..request::pattern(&arguments.dtype, arguments.compute.as_deref(), arguments.batch)?
        };
        let all = FamilyArguments { family: Vec::new(), folders: arguments.folders.clone() };
        let (families, templates) = request::families(&all)?;
        let wish: Wish = arguments.device.parse()?;
        let workshop = Workshop::new(&arguments.common)?;
        let device = workshop.described_device(wish, console)?;
        let path = || Path::new("results").join(device.slug() + ".toml");
        let database = arguments.db.clone().unwrap_or_else(path);
        let problem = request::problem(problem)?;
        Ok(Self { console, workshop, families, templates, problem, device, database })
    }

    /// The kernel of a family with some of its parameters set.
    fn chosen(&self, family: &str, set: &str) -> Result<Subject, Failure> {
        let family = self.family(family).map_err(Failure::usage)?;
        let chosen = family.choose(set, &self.problem, &self.device).map_err(Failure::usage)?;
        self.subject(family, chosen)
    }

    /// The kernel that the database has for the problem.
    fn winner(&self) -> Result<Subject, Failure> {
        let path = self.database.display();
        let database = Database::load(&self.database).map_err(Failure::work)?;
        let found = database.find(&self.problem, &self.device, Regime::default());
        let record = found.ok_or_else(|| {
            Failure::Work(format!(
                "`{path}` has no winner for {} on {}: tune it with `gemm-tune --shape {}`, or look \
                 at a family with `--family NAME`",
                self.problem, self.device.name, self.problem.shape
            ))
        })?;
        let family = self.family(&record.family).map_err(|error| {
            Failure::Work(format!("the winner in `{path}` cannot be made again: {error}"))
        })?;
        if self.templates.hash(family) != record.provenance.template_hash {
            self.console.note(&format!(
                "the template of `{}` has changed since the winner was recorded: this is what it \
                 gives today",
                family.name
            ));
        }
        self.subject(family, record.configuration())
    }

    fn family(&self, name: &str) -> Result<&Family, LoadError> {
        let unknown = || LoadError::unknown(name, self.families.iter().map(|one| &*one.name));
        self.families.iter().find(|family| family.name == name).ok_or_else(unknown)
    }

    fn subject(&self, family: &Family, configuration: Configuration) -> Result<Subject, Failure> {
        let (problem, device) = (self.problem, self.device.clone());
        Subject::new(family, &self.templates, configuration, problem, device).map_err(Failure::work)
    }

    /// Shows one aspect of a kernel.
    fn show(&self, subject: &Subject, emit: Emit) -> Result<Value, Failure> {
        let mut document = inspected::subject_document(subject);
        let width = self.console.width();
        let (name, value) = match emit {
            Emit::Cuda => {
                let source = &subject.rendered.source;
                self.console.code(source, highlight::cuda);
                ("cuda", json!(source))
            }
            Emit::Ptx => {
                let compiled = self.compiled(subject, Target::Ptx)?;
                let text = String::from_utf8_lossy(&compiled.image).into_owned();
                self.console.code(&text, str::to_owned);
                ("ptx", json!(text))
            }
            Emit::Sass => {
                let compiled = self.compiled(subject, Target::Cubin)?;
                let text = self.workshop.disassemble(&compiled.image, self.console)?;
                self.console.code(&text, str::to_owned);
                ("sass", json!(text))
            }
            Emit::Resources => {
                let (_, figures) = self.figures(subject)?;
                self.console.result(&inspected::figures(subject, &figures, width));
                ("resources", inspected::figures_document(&figures))
            }
            Emit::Memory => {
                let compiled = self.compiled(subject, Target::Ptx)?;
                let launches = traffic(subject, &compiled.image).map_err(Failure::work)?;
                self.console.result(&inspected::traffic(subject, &launches, width));
                ("memory", inspected::traffic_document(&launches))
            }
            Emit::Picture | Emit::Svg => {
                let compiled = self.compiled(subject, Target::Ptx)?;
                let picture = picture(subject, &compiled.image).map_err(Failure::work)?;
                let drawn = match emit {
                    Emit::Svg => drawn::svg(subject, &picture),
                    _ => drawn::text(subject, &picture),
                };
                self.console.result(&drawn);
                ("picture", json!(drawn))
            }
        };
        document[name] = value;
        Ok(document)
    }

    /// Shows how two kernels differ.
    fn compare(&self, names: [&str; 2]) -> Result<Value, Failure> {
        let look = |name: &str| -> Result<(Subject, Figures, Mix), Failure> {
            let subject = self.named(name)?;
            let (compiled, figures) = self.figures(&subject)?;
            let launches = traffic(&subject, &compiled.image).map_err(Failure::work)?;
            let mix = Mix::of(&launches, &subject.problem);
            Ok((subject, figures, mix))
        };
        let [first, second] = [look(names[0])?, look(names[1])?];
        let difference = difference(&first.0, &second.0);
        let sides = [&first, &second].map(|(subject, figures, mix)| Side { subject, figures, mix });
        let text = inspected::comparison(sides, &difference, self.console.width());
        self.console.result(&text);
        Ok(inspected::comparison_document(sides, &difference))
    }

    /// `winner`, or `FAMILY:NAME=VALUE,NAME=VALUE`.
    fn named(&self, text: &str) -> Result<Subject, Failure> {
        if text == WINNER {
            return self.winner();
        }
        let (family, set) = text.split_once(':').unwrap_or((text, ""));
        self.chosen(family, set)
    }

    fn figures(&self, subject: &Subject) -> Result<(Compiled, Figures), Failure> {
        let compiled = self.compiled(subject, Target::AssembledPtx)?;
        let figures = figures(subject, &compiled.resources);
        Ok((compiled, figures))
    }

    fn compiled(
        &self,
        subject: &Subject,
        target: fn(Architecture) -> Target,
    ) -> Result<Compiled, Failure> {
        let target = target(Architecture::from(self.device.compute_capability));
        let compiler = self.workshop.compiler_to(target, None, self.console)?;
        compiler.compile(&subject.request()).map_err(Failure::work)
    }
}
