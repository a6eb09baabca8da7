//! Products of tensor cores, and copies that round their operands: the cpu device gives the bits of the GPU.

use gemm_tune::compile::{Architecture, Compile as _, CompileTarget, Compiler};
use gemm_tune::model::CopyRounding;
use gemm_tune::worker::{Executor as _, KernelSetup, LaunchArgument, LaunchCommand, WorkItem};
use libtest_mimic::Failed;

use crate::rig::{compiler, worker};
use crate::rounded_copies::{
    BOX, BOXES, COPIED_BYTES, ENTRIES, copied_map, copied_on_the_cpu, copies_request, words_of,
};
use crate::tensor_products::{BYTES, INSTRUCTIONS, PRODUCTS, on_the_cpu, request};

pub(crate) fn products_have_the_same_bits() -> Result<(), Failed> {
    let mut worker = worker();
    let compiler = compiler(&worker);
    let target = CompileTarget::Ptx(Architecture::from(worker.device().compute_capability));
    let to_ptx = Compiler::new(compiler.nvrtc().clone(), None, target)?;
    let out = worker.allocate(BYTES)?;
    let mut different = Vec::new();
    for instruction in INSTRUCTIONS {
        let request = request(instruction);
        let setup =
            KernelSetup { entry: "multiply".to_owned(), threads: 32, dynamic_shared_bytes: 0 };
        let module = worker.load(&compiler.compile(&request)?.image, &[setup])?.module;
        worker.fill(out, 0, BYTES / 4)?;
        worker.run(&[WorkItem::Kernel(LaunchCommand {
            module,
            entry: "multiply".to_owned(),
            grid: [PRODUCTS, 1, 1],
            block: [32, 1, 1],
            dynamic_shared_bytes: 0,
            programmatic: false,
            arguments: vec![LaunchArgument::Pointer(out)],
        })])?;
        let of_gpu = worker.read(out, BYTES)?;
        worker.unload(module)?;
        let cpu = on_the_cpu(&String::from_utf8_lossy(&to_ptx.compile(&request)?.image));
        let words = |bytes: &[u8]| -> Vec<u32> {
            bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
        };
        let (gpu, cpu) = (words(&of_gpu), words(&cpu));
        println!(
            "{}: the GPU's words have BLAKE3 {}",
            instruction.0,
            blake3::hash(&of_gpu).to_hex()
        );
        let wrong: Vec<usize> = (0..gpu.len()).filter(|at| gpu[*at] != cpu[*at]).collect();
        let kind = |at: usize| at / 256 % 5;
        let mut of_kinds = [0; 5];
        wrong.iter().for_each(|at| of_kinds[kind(*at)] += 1);
        println!(
            "{}: {} of {} words differ, by kind {of_kinds:?}",
            instruction.0,
            wrong.len(),
            gpu.len()
        );
        for at in wrong.iter().take(5) {
            println!(
                "    word {at}, kind {}: GPU {:08x}, cpu {:08x}",
                kind(*at),
                gpu[*at],
                cpu[*at]
            );
        }
        if !wrong.is_empty() {
            different.push(instruction.0);
        }
    }
    worker.free(out)?;
    assert!(different.is_empty(), "{different:?}");
    Ok(())
}

pub(crate) fn copies_round_alike() -> Result<(), Failed> {
    let mut worker = worker();
    if worker.device().compute_capability.major < 9 {
        println!("skipped: the device has no copy engine for boxes");
        return Ok(());
    }
    let compiler = compiler(&worker);
    let target = CompileTarget::Ptx(Architecture::from(worker.device().compute_capability));
    let to_ptx = Compiler::new(compiler.nvrtc().clone(), None, target)?;
    let request = copies_request();
    let ptx = to_ptx.compile(&request)?.image;
    let ptx = String::from_utf8_lossy(&ptx);
    let setup = |entry: &str| KernelSetup {
        entry: entry.to_owned(),
        threads: BOX,
        dynamic_shared_bytes: 0,
    };
    let module = worker.load(&compiler.compile(&request)?.image, &ENTRIES.map(setup))?.module;
    let (elements, out) = (worker.allocate(COPIED_BYTES)?, worker.allocate(COPIED_BYTES)?);
    for rounds_to in [None, Some(CopyRounding::Tf32)] {
        let map = LaunchArgument::Map(copied_map(elements, rounds_to));
        let arguments =
            [vec![LaunchArgument::Pointer(elements)], vec![LaunchArgument::Pointer(out), map]];
        let launches = ENTRIES.into_iter().zip(arguments).map(|(entry, arguments)| {
            WorkItem::Kernel(LaunchCommand {
                module,
                entry: entry.to_owned(),
                grid: [BOXES, 1, 1],
                block: [BOX, 1, 1],
                dynamic_shared_bytes: 0,
                programmatic: false,
                arguments,
            })
        });
        worker.run(&launches.collect::<Vec<_>>())?;
        let on_gpu = words_of(&worker.read(out, COPIED_BYTES)?);
        let [made, on_cpu] = copied_on_the_cpu(&ptx, rounds_to);
        let different = (0..made.len()).filter(|at| on_gpu[*at] != on_cpu[*at]);
        let different: Vec<String> = different
            .map(|at| format!("{:08x}: GPU {:08x}, cpu {:08x}", made[at], on_gpu[at], on_cpu[at]))
            .collect();
        println!("{rounds_to:?}: {} of {} elements differ", different.len(), made.len());
        let first = &different[..different.len().min(10)];
        assert!(different.is_empty(), "{rounds_to:?}:\n{}", first.join("\n"));
    }
    worker.free(elements)?;
    worker.free(out)?;
    Ok(worker.unload(module)?)
}
