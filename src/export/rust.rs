//! Rust export: a module for programs with cudarc, and the cubins that it includes. It selects
//! kernels as the C source does.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::bundle::{Artifact, ExportedKernel, unused_name};
use super::left_out::UnfitKernels;
use super::source::{
    argument_places, fill, map_row, map_sizes, operand_operations, place, sizes, unfit,
};
use crate::dispatch::DispatchNode;
use crate::model::problem::{MAX_EXTENT, MAX_OPERAND_BYTES};
use crate::model::{Dtype, EpilogueOp, ProblemPattern};
use crate::quote;
use crate::space::Formula;
use crate::space::formula::{Language, OPEN};
use gemm_tune_runtime::opening::sha256;

/// The method that encodes tensor maps.
const ENCODING: &str = include_str!("artifact/gemm_tuned_maps.rs.txt");

/// The same where no kernel has any: old drivers lack the function, and old features of cudarc its binding.
const NO_ENCODING: &str = "    /// No kernel has tensor maps.
    fn maps(
        &self,
        _: &'static Kernel,
        _: &Open,
        _: [u64; 3],
        _: &[u64; MOST],
    ) -> Result<Option<Arc<[EncodedMap]>>, DriverError> {
        Ok(None)
    }
";

/// Makes the files by name, and lists the kernels that are left out by their places, each with the reason. The
/// machine code for `architecture` is included. Without any kernel, there are no files.
pub fn rust(artifact: &Artifact, architecture: &str) -> (BTreeMap<String, Vec<u8>>, UnfitKernels) {
    let mut left_out = Vec::new();
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let (mut patterns, mut images) = (Vec::new(), Vec::new());
    let (mut launches, mut kernels, mut formulas) = (String::new(), String::new(), String::new());
    let (mut launched, mut taken) = (0, 0);
    let (mut maps, mut mapped) = (String::new(), 0);
    let mut places = vec![Vec::new(); artifact.kernels.len()];
    for (number, kernel) in artifact.kernels.iter().enumerate() {
        let draft = &kernel.draft;
        let batch = (draft.problem.batch != 1).then_some("it is for a batch: export C or a bundle");
        let unfit = unfit(kernel).or(batch);
        let Some(image) = kernel.cubins.get(architecture).filter(|_| unfit.is_none()) else {
            let why = unfit.unwrap_or("it has no machine code for that architecture");
            left_out.push((number, why.to_owned()));
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
        for map in &draft.bound.tensor_maps {
            let row = map_row(kernel, map).map(|value| value.to_string()).join(", ");
            let _ = writeln!(maps, "    TensorMap({row}),");
        }
        formulas.push_str(&functions(kernel, taken));
        let (shape, e) = (draft.problem.shape, &draft.expectation);
        let _ = writeln!(
            kernels,
            "    // {}\n    Kernel {{\n        pattern: {pattern},\n        tuned: {},\n        \
             own: [{}, {}, {}],\n        first_launch: {launched},\n        launches: {},\n        \
             workspaces: {},\n        first_map: {mapped},\n        maps: {},\n        map_sizes: map_sizes_{taken},\n        \
             serves: serves_{taken},\n        sizes: sizes_{taken},\n        \
             tiles: [{}, {}, {}, {}, {}, {}],\n        clocks: [{:e}, {:e}, {:e}, {:e}, {:e}, {:e}, {:e}, {:e}, {:e}],\n    }},",
            quote::rust_comment(&draft.remark()),
            draft.record.is_some(),
            shape.m,
            shape.n,
            shape.k,
            draft.plan.kernels.len(),
            draft.plan.workspaces.len(),
            draft.bound.tensor_maps.len(),
            e.tile_m,
            e.tile_n,
            e.slice_k,
            e.blocks_of_a_tile,
            e.blocks_per_sm,
            e.unused_sms,
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
        mapped += draft.bound.tensor_maps.len();
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
        ("@MAPS@", maps),
        ("@ENCODING@", if mapped > 0 { ENCODING } else { NO_ENCODING }.to_owned()),
        ("@FUNCTIONS@", methods.join("\n")),
    ];
    let values: Vec<(&str, &str)> =
        values.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let mut text = fill(include_str!("artifact/gemm_tuned.rs.txt"), &values);
    text.push_str(include_str!("artifact/gemm_tuned_unread.rs.txt"));
    if mapped > 0 {
        text.push_str(include_str!("artifact/gemm_tuned_encode.rs.txt"));
    }
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
    let assigned = |sizes: Vec<(usize, &Formula)>| -> String {
        let assigned = sizes.into_iter();
        assigned.map(|(place, size)| format!("    s[{place}] = {};\n", text(size))).collect()
    };
    let of_launches = assigned(sizes(bound));
    let of_maps = match map_sizes(bound) {
        none if none.is_empty() => "    [0; 120]\n".to_owned(),
        sizes => format!("    let mut s = [0; 120];\n{}    s\n", assigned(sizes)),
    };
    let names = OPEN.map(str::to_lowercase).join(", ");
    format!(
        "fn serves_{number}(&[{names}]: &Open) -> bool {{\n    {serves}\n}}\n\n\
         fn sizes_{number}(&[{names}]: &Open) -> Sizes {{\n    let mut s = [0; 64];\n{of_launches}    s\n}}\n\n\
         fn map_sizes_{number}(&[{names}]: &Open) -> MapSizes {{\n{of_maps}}}\n\n"
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

/// The Rust type of an element.
fn element(dtype: Dtype) -> &'static str {
    match dtype {
        Dtype::F32 => "f32",
        Dtype::I32 => "i32",
        Dtype::F16 | Dtype::Bf16 => "u16",
        Dtype::I8 => "i8",
    }
}

/// The operands of a pattern's epilogue, as pieces of a method.
#[derive(Default)]
struct EpilogueParts {
    /// Type parameters.
    generics: String,
    /// Parameters.
    parameters: String,
    /// Checks of lengths.
    checks: String,
    /// Addresses as local values, each beside its guard.
    addresses: String,
    /// Addresses in the order of the arguments.
    list: Vec<String>,
}

fn epilogue_parts(pattern: ProblemPattern) -> EpilogueParts {
    let ProblemPattern { types, epilogue, .. } = pattern;
    let mut parts = EpilogueParts::default();
    let bytes = types.d.bytes();
    for (place, operation) in operand_operations().enumerate() {
        let name = operation.operand().unwrap_or_default();
        if !epilogue.operands().any(|own| own == operation) {
            parts.list.push("0".to_owned());
            continue;
        }
        let own = element(operation.operand_dtype(types));
        let holds = match operation {
            EpilogueOp::Bias | EpilogueOp::ColScale => {
                format!("{name}.len() as i64 >= i64::from(n)")
            }
            EpilogueOp::RowScale => format!("{name}.len() as i64 >= i64::from(m)"),
            _ => format!("holds({name}.len(), [m, n], ldc, {bytes})"),
        };
        parts.generics.push_str(&format!(", E{place}: DevicePtr<{own}>"));
        parts.parameters.push_str(&format!("        {name}: &E{place},\n"));
        parts.checks.push_str(&format!(
            "        if !({holds}) {{
            return Err(Error::BadArgument(\"`{name}` is too short\"));
        }}\n"
        ));
        parts
            .addresses
            .push_str(&format!("        let ({name}, _{name}) = {name}.device_ptr(stream);\n"));
        parts.list.push(name.to_owned());
    }
    parts
}

fn method(number: usize, pattern: ProblemPattern) -> String {
    let ProblemPattern { types, layout, .. } = pattern;
    let [of_a, of_b, of_c, scalar] = [types.a, types.b, types.d, types.scalar()].map(element);
    let name = function(pattern);
    let transposed = [layout.a_transposed(), layout.b_transposed()];
    let stored_a = if transposed[0] { "[k, m]" } else { "[m, k]" };
    let stored_b = if transposed[1] { "[n, k]" } else { "[k, n]" };
    let (zero, one) = if scalar == "f32" { ("0.0", "1.0") } else { ("0", "1") };
    let is_plain = pattern.epilogue.is_empty();
    let [bytes_a, bytes_b, bytes_c] = [types.a, types.b, types.d].map(Dtype::bytes);
    let EpilogueParts { generics, parameters, checks, addresses, list } = epilogue_parts(pattern);
    let list = list.join(", ");
    format!(
        "    /// Enqueues a product of {types}. A is stored as {stored_a}, B as {stored_b}. Each matrix comes
    /// with its leading dimension. Operands of an epilogue: values for a column or a row, and matrices stored as C is.
    pub fn {name}<A: DevicePtr<{of_a}>, B: DevicePtr<{of_b}>, C: DevicePtrMut<{of_c}>{generics}>(
        &self,
        stream: &CudaStream,
        [m, n, k]: [i32; 3],
        mut alpha: {scalar},
        (a, lda): (&A, i32),
        (b, ldb): (&B, i32),
        mut beta: {scalar},
        (c, ldc): (&mut C, i32),
{parameters}        workspace: Option<&mut CudaSlice<u8>>,
    ) -> Result<(), Error> {{
        // Without elements of C there is nothing to do.
        if m.min(n) == 0 && [m, n, k].iter().all(|extent| *extent >= 0) {{
            return Ok(());
        }}
        // As in BLAS, A and B are not read where K or alpha is 0.
        let is_read = k != 0 && alpha != {zero};
        let matrices = [
            (c.len(), [m, n], ldc, {bytes_c}),
            (a.len(), {stored_a}, lda, {bytes_a}),
            (b.len(), {stored_b}, ldb, {bytes_b}),
        ];
        let mut read = matrices.iter().take(if is_read {{ 3 }} else {{ 1 }});
        if k < 0 || read.any(|(len, extents, row, bytes)| !holds(*len, *extents, *row, *bytes)) {{
            return Err(Error::BadArgument(
                \"a matrix does not fit its slice, its rows overlap, or it is too large\",
            ));
        }}
{checks}        let (a, _a) = a.device_ptr(stream);
        let (b, _b) = b.device_ptr(stream);
        let (c, _c) = c.device_ptr_mut(stream);
{addresses}        let room = workspace.as_ref().map_or(0, |space| space.len() as i64);
        let borrowed = workspace.map(|space| space.device_ptr_mut(stream));
        let at = borrowed.as_ref().map_or(0, |memory| memory.0);
        let product = Product {{
            pattern: {number},
            transposed: {transposed:?},
            shape: [m, n, k],
            rows: [lda, ldb, ldc],
            addresses: [a, b, c],
            elements: [{bytes_a}, {bytes_b}, {bytes_c}],
            epilogue: [{list}],
            workspace: (at, room),
        }};
        if is_read {{
            return self.run(stream, product, [(&raw mut alpha).cast(), (&raw mut beta).cast()]);
        }}
        let rest = if {is_plain} && beta == {zero} {{
            Rest::Zero
        }} else if {is_plain} && beta == {one} {{
            Rest::Same
        }} else {{
            Rest::Kernel
        }};
        alpha = {one};
        self.run_unread(stream, product, rest, [(&raw mut alpha).cast(), (&raw mut beta).cast()])
    }}

    /// Workspace bytes of the best kernel for this shape, if pointers are aligned to 256 bytes. What a K of 0 needs, an
    /// alpha of 0 needs for any K: none without an epilogue, where beta is 0 or 1.
    pub fn {name}_workspace(&self, [m, n, k]: [i32; 3], rows: [i32; 3]) -> usize {{
        let elements = [{bytes_a}, {bytes_b}, {bytes_c}];
        let transposed = {transposed:?};
        if k == 0 && holds(usize::MAX >> 1, [m, n], rows[2], {bytes_c}) {{
            let product = Product {{
                pattern: {number},
                transposed,
                shape: [m, n, k],
                rows,
                addresses: [0; 3],
                elements,
                epilogue: Default::default(),
                workspace: (0, i64::MAX),
            }};
            let found = self.stand_in(product).and_then(|(zeros, bytes)| {{
                let (kernel, sizes) = self.choose({number}, &zeros.described(), zeros.workspace.1)?;
                Some(bytes + kernel.workspace_bytes(&sizes))
            }});
            return found.map_or(0, |bytes| bytes as usize);
        }}
        let extents = [{stored_a}, {stored_b}, [m, n]];
        let mut each = extents.iter().zip(rows).zip(elements);
        if !each.all(|((own, row), bytes)| holds(usize::MAX >> 1, *own, row, bytes)) {{
            return 0;
        }}
        let p = described([m, n, k], rows, lengths([m, n, k], transposed), 0, elements);
        let best = self.choose({number}, &p, i64::MAX);
        best.map_or(0, |(kernel, sizes)| kernel.workspace_bytes(&sizes) as usize)
    }}
"
    )
}
