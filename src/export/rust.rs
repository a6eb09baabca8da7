//! Rust export: a module for programs with cudarc, and the cubins that it includes. It selects
//! kernels as the C source does.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::bundle::{Artifact, ExportedKernel, sha256, unused_name};
use super::c::{argument_places, fill, place, sizes, unfit};
use crate::dispatch::DispatchNode;
use crate::model::problem::{MAX_EXTENT, MAX_OPERAND_BYTES};
use crate::model::{Dtype, ProblemPattern};
use crate::quote;
use crate::space::Formula;
use crate::space::formula::{Language, OPEN};

/// Makes the files by name, and lists the kernels that are left out, each with the reason. The
/// machine code for `architecture` is included. Without any kernel, there are no files.
pub fn rust(artifact: &Artifact, architecture: &str) -> (BTreeMap<String, Vec<u8>>, Vec<String>) {
    let mut left_out = Vec::new();
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let (mut patterns, mut images) = (Vec::new(), Vec::new());
    let (mut launches, mut kernels, mut formulas) = (String::new(), String::new(), String::new());
    let (mut launched, mut taken) = (0, 0);
    let mut places = vec![Vec::new(); artifact.kernels.len()];
    for (number, kernel) in artifact.kernels.iter().enumerate() {
        let draft = &kernel.draft;
        let batch = (draft.problem.batch != 1).then_some("it is for a batch: export C or a bundle");
        let unfit = unfit(kernel).or(batch);
        let Some(image) = kernel.cubins.get(architecture).filter(|_| unfit.is_none()) else {
            let why = unfit.unwrap_or("it has no machine code for that architecture");
            left_out.push(format!("{}: {why}", draft.name()));
            continue;
        };
        let name =
            unused_name(&files, &quote::file_name(&draft.family), &sha256(image), ".cubin", image);
        files.insert(name.clone(), image.to_vec());
        let image = place(&mut images, name);
        let pattern = place(&mut patterns, draft.pattern());
        for launch in &draft.plan.kernels {
            // Writing to a string does not fail.
            let _ = writeln!(
                launches,
                "    Launch({image}, {}, {}, &[{}]),",
                quote::rust_string(&launch.entry),
                launch.dynamic_shared_bytes,
                argument_places(kernel, &launch.arguments)
            );
        }
        formulas.push_str(&functions(kernel, taken));
        let (shape, e) = (draft.problem.shape, &draft.expectation);
        let _ = writeln!(
            kernels,
            "    // {}\n    Kernel {{\n        pattern: {pattern},\n        tuned: {},\n        \
             own: [{}, {}, {}],\n        first_launch: {launched},\n        launches: {},\n        \
             workspaces: {},\n        serves: serves_{taken},\n        sizes: sizes_{taken},\n        \
             tiles: [{}, {}, {}, {}, {}],\n        clocks: [{:e}, {:e}, {:e}, {:e}, {:e}, {:e}, {:e}, {:e}, {:e}],\n    }},",
            quote::rust_comment(&draft.remark()),
            draft.record.is_some(),
            shape.m,
            shape.n,
            shape.k,
            draft.plan.kernels.len(),
            draft.plan.workspaces.len(),
            e.tile_m,
            e.tile_n,
            e.slice_k,
            e.blocks_of_a_tile,
            e.blocks_per_sm,
            e.busy_clocks,
            e.alone_clocks,
            e.block_clocks,
            e.wave_clocks,
            e.a_clocks,
            e.b_clocks,
            e.launch_us,
            e.us_per_clock,
            e.own_clocks,
        );
        launched += draft.plan.kernels.len();
        places[number].push(taken);
        taken += 1;
    }
    let Some(first) = patterns.first() else { return (BTreeMap::new(), left_out) };
    let included: String = images
        .iter()
        .map(|name| format!("    include_bytes!({}),\n", quote::rust_string(name)))
        .collect();
    let tree = artifact.tree.as_ref().map(|tree| tree.mapped(&|kernel| places[kernel].clone()));
    let methods: Vec<String> =
        patterns.iter().enumerate().map(|(number, own)| method(number, *own)).collect();
    let values = [
        ("@MAX_EXTENT@", MAX_EXTENT.to_string()),
        ("@MAX_OPERAND_BYTES@", MAX_OPERAND_BYTES.to_string()),
        ("@VERSION@", env!("CARGO_PKG_VERSION").to_owned()),
        ("@DEVICE@", format!("{} ({architecture})", quote::rust_comment(&artifact.device.name))),
        ("@EXAMPLE@", function(*first)),
        ("@IMAGES@", included),
        ("@LAUNCHES@", launches),
        ("@FORMULAS@", formulas),
        ("@KERNELS@", kernels),
        ("@TREE@", tree.map_or_else(|| "    &[]\n".to_owned(), |tree| branches(&tree, 1))),
        ("@FUNCTIONS@", methods.join("\n")),
    ];
    let values: Vec<(&str, &str)> =
        values.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let text = fill(include_str!("artifact/gemm_tuned.rs.txt"), &values);
    files.insert("gemm_tuned.rs".to_owned(), text.into_bytes());
    (files, left_out)
}

/// Writes the two functions of a kernel.
fn functions(kernel: &ExportedKernel, number: usize) -> String {
    let bound = &kernel.draft.bound;
    let text = |formula: &Formula| formula.text(Language::Rust);
    let serves: Vec<String> =
        bound.serves.iter().map(|condition| format!("({})", text(condition))).collect();
    let serves = if serves.is_empty() { "true".to_owned() } else { serves.join("\n        && ") };
    let assigned: String = sizes(bound)
        .into_iter()
        .enumerate()
        .map(|(place, size)| format!("    s[{place}] = {};\n", text(size)))
        .collect();
    let names = OPEN.map(str::to_lowercase).join(", ");
    format!(
        "fn serves_{number}(&[{names}]: &Open) -> bool {{\n    {serves}\n}}\n\n\
         fn sizes_{number}(&[{names}]: &Open) -> Sizes {{\n    let mut s = [0; 64];\n{assigned}    s\n}}\n\n"
    )
}

fn branches(node: &DispatchNode, depth: usize) -> String {
    let indent = "    ".repeat(depth);
    match node {
        DispatchNode::Leaf { kernels } => {
            let places: Vec<String> = kernels.iter().map(ToString::to_string).collect();
            format!("{indent}&[{}]\n", places.join(", "))
        }
        DispatchNode::Split { extent, below, then, otherwise } => format!(
            "{indent}if p[{}] < {below} {{ // {}\n{}{indent}}} else {{\n{}{indent}}}\n",
            *extent as usize,
            extent.name(),
            branches(then, depth + 1),
            branches(otherwise, depth + 1),
        ),
    }
}

fn function(pattern: ProblemPattern) -> String {
    pattern.identifier()
}

fn method(number: usize, pattern: ProblemPattern) -> String {
    let ProblemPattern { types, layout, .. } = pattern;
    let dtype = types.a;
    let (element, scalar) = match dtype {
        Dtype::F32 => ("f32", "f32"),
        Dtype::I32 => ("i32", "i32"),
        Dtype::F16 | Dtype::Bf16 => ("u16", "f32"),
        Dtype::I8 => ("i8", "i32"),
    };
    let name = function(pattern);
    let (stored_a, length_a) =
        if layout.a_transposed() { ("[k, m]", "m") } else { ("[m, k]", "k") };
    let (stored_b, length_b) =
        if layout.b_transposed() { ("[n, k]", "k") } else { ("[k, n]", "n") };
    let bytes = dtype.bytes();
    format!(
        "    /// Enqueues a product of {dtype}. A is stored as {stored_a}, B as {stored_b}. Each matrix comes
    /// with its leading dimension.
    pub fn {name}<A: DevicePtr<{element}>, B: DevicePtr<{element}>, C: DevicePtrMut<{element}>>(
        &self,
        stream: &CudaStream,
        [m, n, k]: [i32; 3],
        mut alpha: {scalar},
        (a, lda): (&A, i32),
        (b, ldb): (&B, i32),
        mut beta: {scalar},
        (c, ldc): (&mut C, i32),
        workspace: Option<&mut CudaSlice<u8>>,
    ) -> Result<(), Error> {{
        let matrices =
            [(a.len(), {stored_a}, lda), (b.len(), {stored_b}, ldb), (c.len(), [m, n], ldc)];
        if matrices.iter().any(|(len, extents, row)| !holds(*len, *extents, *row, {bytes})) {{
            return Err(Error::BadArgument(
                \"a matrix does not fit its slice, its rows overlap, or it is too large\",
            ));
        }}
        let (a, _a) = a.device_ptr(stream);
        let (b, _b) = b.device_ptr(stream);
        let (c, _c) = c.device_ptr_mut(stream);
        let room = workspace.as_ref().map_or(0, |space| space.len() as i64);
        let borrowed = workspace.map(|space| space.device_ptr_mut(stream));
        let at = borrowed.as_ref().map_or(0, |memory| memory.0);
        let product = Product {{
            pattern: {number},
            shape: [m, n, k],
            rows: [lda, ldb, ldc],
            lengths: [{length_a}, {length_b}, n],
            addresses: [a, b, c],
            element: {bytes},
            workspace: (at, room),
        }};
        self.run(stream, product, [(&raw mut alpha).cast(), (&raw mut beta).cast()])
    }}

    /// Workspace bytes of the best kernel for this shape, if pointers are aligned to 256 bytes.
    pub fn {name}_workspace(&self, [m, n, k]: [i32; 3], rows: [i32; 3]) -> usize {{
        let extents = [{stored_a}, {stored_b}, [m, n]];
        if !extents.iter().zip(rows).all(|(own, row)| holds(usize::MAX >> 1, *own, row, {bytes})) {{
            return 0;
        }}
        let p = open([m, n, k], rows, [{length_a}, {length_b}, n], 0, {bytes});
        let best = self.choose({number}, &p, i64::MAX);
        best.map_or(0, |(kernel, sizes)| kernel.workspace_bytes(&sizes) as usize)
    }}
"
    )
}
