//! C export: one header, which is the same for every artifact, and one source file that embeds the machine
//! code and loads the CUDA driver itself. A call uses the kernel that was tuned for exactly this problem, else the
//! one with the lowest predicted time ([`crate::predict::TimeFormula`]).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::bundle::{Artifact, ExportedKernel, names};
use super::c_build::{HEADER, build_files};
use super::c_images::{arrays, image_table};
use super::c_library::{LibraryTables, TABLES, with_or_without};
use super::c_types::{
    compute_table, dtype_table, epilogue_number, operation_table, types_constant,
};
use super::left_out::UnfitKernels;
use super::source::{argument_places, fill, map_row, map_sizes, place, sizes, unfit};
use crate::compile::{Architecture, Features};
use crate::dispatch::DispatchNode;
use crate::model::problem::{MAX_BATCH, MAX_EXTENT, MAX_OPERAND_BYTES};
use crate::quote;
use crate::space::Formula;
use crate::space::formula::{Language, OPEN};
use gemm_tune_runtime::opening::sha256;

/// The C source in the order of its parts: each uses those before it. Those of the library are marked.
const SOURCE: [(bool, &str); 23] = [
    (false, include_str!("artifact/c/tables.c")),
    (false, include_str!("artifact/c/packed.c")),
    (false, include_str!("artifact/c/driver.c")),
    (false, include_str!("artifact/c/problem.c")),
    (true, include_str!("artifact/c/library/forecast.c")),
    (false, include_str!("artifact/c/choice.c")),
    (false, include_str!("artifact/c/handle.c")),
    (true, include_str!("artifact/c/library/load.c")),
    (true, include_str!("artifact/c/library/cublas.c")),
    (false, include_str!("artifact/c/remembered.c")),
    (false, include_str!("artifact/c/measured.c")),
    (false, include_str!("artifact/c/memory.c")),
    (false, include_str!("artifact/c/create.c")),
    (true, include_str!("artifact/c/library/call.c")),
    (false, include_str!("artifact/c/plans.c")),
    (false, include_str!("artifact/c/maps.c")),
    (false, include_str!("artifact/c/launch.c")),
    (false, include_str!("artifact/c/empty.c")),
    (false, include_str!("artifact/c/measure.c")),
    (false, include_str!("artifact/c/interface.c")),
    (false, include_str!("artifact/c/run.c")),
    (false, include_str!("artifact/c/blas.c")),
    (false, include_str!("artifact/c/end.c")),
];

/// The source with the parts and lines of the library or without.
fn template(has_library: bool) -> String {
    let parts = SOURCE.iter().filter(|(of_library, _)| has_library || !of_library);
    let source: String = parts.map(|(_, text)| *text).collect();
    with_or_without(&source, has_library).replace("@LIBRARY_TABLES@\n", TABLES)
}

/// Digits of the checksum that files of measured kernels are named by.
const DIGEST_DIGITS: usize = 16;

/// Makes the files by name, and lists the kernels that are left out by their places, each with the reason. The
/// machine code for all `architectures` is embedded. Without any kernel, there are no files.
pub fn c(
    artifact: &Artifact,
    architectures: &[Architecture],
) -> (BTreeMap<String, String>, UnfitKernels) {
    let Artifact { device, kernels, tree, libraries } = artifact;
    let mut left_out = Vec::new();
    let mut tables = CTables::default();
    let mut places = vec![Vec::new(); kernels.len()];
    let names = names(kernels.iter().map(|kernel| &kernel.draft));
    for (place, (kernel, name)) in kernels.iter().zip(&names).enumerate() {
        let images: Option<Vec<&[u8]>> = architectures
            .iter()
            .map(|own| kernel.cubins.get(&own.to_string()).map(|image| &**image))
            .collect();
        match (unfit(kernel), images.filter(|images| !images.is_empty())) {
            (None, Some(images)) => {
                places[place].push(tables.kernels);
                tables.add(kernel, name, images);
            }
            (why, _) => {
                let why = why.unwrap_or("it has no machine code for one of the architectures");
                left_out.push((place, why.to_owned()));
            }
        }
    }
    if tables.kernels == 0 {
        return (BTreeMap::new(), left_out);
    }
    let drafts = kernels.iter().map(|kernel| &kernel.draft);
    let library = libraries.as_ref();
    let library = library.and_then(|models| LibraryTables::new(drafts, models, device));
    // The rows of the library come first.
    let first = library.as_ref().map_or(0, |library| library.rows);
    let listed = |text: &dyn Fn(&Architecture) -> String| -> String {
        architectures.iter().map(text).collect::<Vec<_>>().join(", ")
    };
    let values = [
        ("@VERSION@", env!("CARGO_PKG_VERSION").to_owned()),
        ("@MAX_EXTENT@", MAX_EXTENT.to_string()),
        ("@MAX_BATCH@", MAX_BATCH.to_string()),
        ("@MAX_OPERAND_BYTES@", MAX_OPERAND_BYTES.to_string()),
        ("@MULTIPROCESSORS@", device.sms.to_string()),
        ("@KERNELS@", (first + tables.kernels).to_string()),
        ("@IMAGES@", tables.images.len().to_string()),
        ("@LAUNCHES@", tables.launches.to_string()),
        ("@MAPS@", tables.maps.to_string()),
        (
            "@MAP_TABLE@",
            if tables.maps == 0 { "    { 0, 0, 0, 0, 0 },\n".to_owned() } else { tables.map_rows },
        ),
        ("@OPERATION_TABLE@", operation_table()),
        ("@DTYPE_TABLE@", dtype_table()),
        ("@COMPUTE_TABLE@", compute_table()),
        ("@ARCHITECTURES@", listed(&ToString::to_string)),
        ("@ARCHITECTURE_COUNT@", architectures.len().to_string()),
        ("@ARCHITECTURE_TABLE@", listed(&architecture_row)),
        ("@ARRAYS@", arrays(&tables.images)),
        ("@IMAGE_TABLE@", image_table(architectures.len(), &tables.images)),
        ("@LAUNCH_TABLE@", tables.launch_rows),
        ("@FORMULAS@", tables.formulas),
        (
            "@KERNEL_TABLE@",
            library.as_ref().map_or("", |library| &library.kernel_rows).to_owned()
                + &tables.kernel_rows,
        ),
        (
            "@TREE@",
            preferred(tree.as_ref().map(|tree| {
                let place = |own: &usize| first + own;
                tree.mapped(&|kernel| places[kernel].iter().map(place).collect())
            })),
        ),
    ];
    let template = template(library.is_some());
    let values = values.into_iter().chain(library.map(|own| own.values).unwrap_or_default());
    let values: Vec<(&str, String)> = values.collect();
    let values: Vec<(&str, &str)> =
        values.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let source = |digest: &str, device: &str| {
        let own = [("@DIGEST@", digest), ("@DEVICE@", device)];
        fill(&template, &values.iter().copied().chain(own).collect::<Vec<_>>())
    };
    // What was measured belongs to these kernels, whatever the name of the device.
    let digest = sha256(source("", "").as_bytes());
    let digest = digest.get(..DIGEST_DIGITS).unwrap_or(&digest);
    let source = source(digest, &quote::c_comment(&device.name));
    let files = [
        ("gemm_tuned.h".to_owned(), HEADER.to_owned()),
        ("gemm_tuned_cublas.h".to_owned(), include_str!("artifact/gemm_tuned_cublas.h").to_owned()),
        ("gemm_tuned.c".to_owned(), source),
    ];
    (files.into_iter().chain(build_files()).collect(), left_out)
}

/// Tables of the C source, built kernel by kernel.
#[derive(Default)]
struct CTables<'a> {
    /// Images of a source: one for each architecture.
    images: Vec<Vec<&'a [u8]>>,
    launches: usize,
    launch_rows: String,
    maps: usize,
    map_rows: String,
    formulas: String,
    kernels: usize,
    kernel_rows: String,
}

impl<'a> CTables<'a> {
    fn add(&mut self, kernel: &'a ExportedKernel, name: &str, images: Vec<&'a [u8]>) {
        let draft = &kernel.draft;
        let image = place(&mut self.images, images);
        let first_launch = self.launches;
        for (launch, bound) in draft.plan.kernels.iter().zip(&draft.bound.launches) {
            let (entry, shared) = (&launch.entry, launch.dynamic_shared_bytes);
            let programmatic = i32::from(bound.programmatic);
            // Writing to a string does not fail.
            let _ = writeln!(
                self.launch_rows,
                "    {{ {image}, {}, {shared}, {programmatic}, {}, {{ {} }} }},",
                quote::c_string(entry),
                launch.arguments.len(),
                argument_places(kernel, &launch.arguments)
            );
            self.launches += 1;
        }
        let first_map = self.maps;
        for map in &draft.bound.tensor_maps {
            let row = map_row(kernel, map).map(|value| value.to_string()).join(", ");
            let _ = writeln!(self.map_rows, "    {{ {row} }},");
            self.maps += 1;
        }
        let maps = draft.bound.tensor_maps.len();
        let number = self.kernels;
        self.kernels += 1;
        self.formulas.push_str(&formulas(kernel, number));
        let (shape, expected) = (draft.problem.shape, &draft.expectation);
        let _ = writeln!(
            self.kernel_rows,
            "    /* {} */\n    {{ {}, {}, {},\n      {}, {}, {}, {}, {}, {}, {first_launch}, {}, {}, {first_map}, {maps}, \
             serves_{number}, sizes_{number}, {},\n      {}, {}, {}, {}, {}, {}, {:e}, {:e},\n      {:e}, {:e}, {:e}, {:e}, {:e}, {:e}, {:e} }},",
            quote::c_comment(&draft.remark()),
            quote::c_string(name),
            types_constant(draft.pattern()),
            epilogue_number(draft.problem.epilogue),
            i32::from(draft.record.is_some()),
            i32::from(!draft.plan.nondeterministic),
            shape.m,
            shape.n,
            shape.k,
            draft.problem.batch,
            draft.plan.kernels.len(),
            draft.plan.workspaces.len(),
            if maps == 0 { "NULL".to_owned() } else { format!("map_sizes_{number}") },
            expected.tile_m,
            expected.tile_n,
            expected.slice_k,
            expected.blocks_of_a_tile,
            expected.blocks_per_sm,
            expected.unused_sms,
            expected.busy_clocks,
            expected.alone_clocks,
            expected.block_clocks,
            expected.wave_clocks,
            expected.a_clocks,
            expected.b_clocks,
            expected.launch_us,
            expected.us_per_clock,
            expected.own_clocks,
        );
    }
}

/// The number of an architecture, and whether its code runs on no later minor version.
fn architecture_row(own: &Architecture) -> String {
    format!("{{ {}, {} }}", own.number, i32::from(own.features == Features::Specific))
}

/// Writes the function that returns the preferred kernels.
fn preferred(tree: Option<DispatchNode>) -> String {
    let mut orders = String::new();
    let mut count = 0;
    let mut body = String::new();
    match tree {
        Some(tree) => branches(&tree, 1, &mut count, &mut orders, &mut body),
        None => body.push_str("    (void)p;\n    *count = 0;\n    return NULL;\n"),
    }
    format!("{orders}static const int *preferred(const long long *p, int *count)\n{{\n{body}}}\n")
}

fn branches(
    node: &DispatchNode,
    depth: usize,
    count: &mut usize,
    orders: &mut String,
    body: &mut String,
) {
    let indent = "    ".repeat(depth);
    match node {
        DispatchNode::Leaf { kernels } if kernels.is_empty() => {
            body.push_str(&format!("{indent}*count = 0;\n{indent}return NULL;\n"));
        }
        DispatchNode::Leaf { kernels } => {
            let places: Vec<String> = kernels.iter().map(ToString::to_string).collect();
            orders.push_str(&format!(
                "static const int order_{count}[] = {{ {} }};\n",
                places.join(", ")
            ));
            body.push_str(&format!(
                "{indent}*count = {};\n{indent}return order_{count};\n",
                kernels.len()
            ));
            *count += 1;
        }
        DispatchNode::Split { extent, below, then, otherwise } => {
            let place = *extent as usize;
            body.push_str(&format!(
                "{indent}if (p[{place}] < {below}) {{ /* {} */\n",
                extent.name()
            ));
            branches(then, depth + 1, count, orders, body);
            body.push_str(&format!("{indent}}}\n"));
            branches(otherwise, depth, count, orders, body);
        }
    }
}

/// Writes the functions of a kernel.
fn formulas(kernel: &ExportedKernel, number: usize) -> String {
    let bound = &kernel.draft.bound;
    let text = |formula: &Formula| formula.text(Language::C);
    let serves: Vec<String> =
        bound.serves.iter().map(|condition| format!("({})", text(condition))).collect();
    let serves = if serves.is_empty() { "1".to_owned() } else { serves.join("\n           && ") };
    let assigning = |name: &str, sizes: Vec<(usize, &Formula)>| {
        let assigned: String = sizes
            .iter()
            .map(|(place, size)| format!("    s[{place}] = {};\n", text(size)))
            .collect();
        format!(
            "static void {name}_{number}(const long long *p, long long *s)\n{{\n{}{assigned}}}\n\n",
            declared(sizes.iter().map(|(_, size)| *size)),
        )
    };
    let maps = map_sizes(bound);
    format!(
        "static int serves_{number}(const long long *p)\n{{\n{}    return {serves};\n}}\n\n{}{}",
        declared(bound.serves.iter()),
        assigning("sizes", sizes(bound)),
        if maps.is_empty() { String::new() } else { assigning("map_sizes", maps) },
    )
}

/// Declares the values that formulas read.
fn declared<'a>(formulas: impl Iterator<Item = &'a Formula>) -> String {
    let mut read = [false; OPEN.len()];
    for formula in formulas {
        for (known, reads) in read.iter_mut().zip(formula.reads()) {
            *known |= reads;
        }
    }
    let used: Vec<String> = (0..OPEN.len())
        .filter(|place| read[*place])
        .map(|place| format!("{} = p[{place}]", OPEN[place]))
        .collect();
    if used.is_empty() {
        "    (void)p;\n".to_owned()
    } else {
        format!("    const long long {};\n", used.join(", "))
    }
}
