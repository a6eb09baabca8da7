//! Parser of the compiler log that `--ptxas-options=-v` produces: the resources of each kernel. The
//! log contains neither dynamic shared memory nor occupancy.

use indexmap::IndexMap;

/// Resources of one entry function, as the assembler reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct KernelResources {
    /// Registers per thread.
    pub registers: u32,
    /// Bytes per thread that spills write to local memory.
    pub spill_store_bytes: u32,
    /// Bytes per thread that spills read back.
    pub spill_load_bytes: u32,
    /// Bytes of a thread's stack frame, with local arrays and spills.
    pub stack_bytes: u32,
    /// Bytes of static shared memory per block.
    pub shared_bytes: u32,
}

impl KernelResources {
    /// Bytes per thread that spills write and read.
    pub fn spill_bytes(&self) -> u32 {
        self.spill_store_bytes + self.spill_load_bytes
    }
}

/// Parses the resources of each entry function in `log`, in its order. Other lines are ignored: a
/// log also holds warnings, and functions that are not entries.
pub fn parse_log(log: &str) -> IndexMap<String, KernelResources> {
    let mut kernels: IndexMap<String, KernelResources> = IndexMap::new();
    let mut entry: Option<&str> = None;
    let mut properties_of: Option<&str> = None;
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            entry = rest.split_once('\'').map(|(name, _)| name);
            kernels.extend(entry.map(|name| (name.to_owned(), KernelResources::default())));
        } else if let Some((_, name)) = line.split_once("Function properties for ") {
            properties_of = Some(name.trim());
        } else if let Some(kernel) = entry.and_then(|name| kernels.get_mut(name)) {
            if let Some((_, used)) = line.split_once("ptxas info    : Used ") {
                kernel.registers = figure(used, "registers");
                kernel.shared_bytes = figure(used, "bytes smem");
            } else if line.contains("bytes stack frame") && properties_of == entry {
                kernel.stack_bytes = figure(line, "bytes stack frame");
                kernel.spill_store_bytes = figure(line, "bytes spill stores");
                kernel.spill_load_bytes = figure(line, "bytes spill loads");
            }
        }
    }
    kernels
}

/// Parses the number before `unit` in a list such as `64 registers, 32768 bytes smem`; 0 when
/// missing, since the assembler omits unused resources.
fn figure(list: &str, unit: &str) -> u32 {
    list.split(',')
        .filter_map(|item| item.trim().strip_suffix(unit))
        .filter_map(|before| before.split_whitespace().next_back()?.parse().ok())
        .next()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of 13.0.88 and 13.5.37 for a program with a warning, a template, a spilling kernel, a
    /// function that is not inlined, and static shared memory.
    const FOUR_KERNELS: &str = r#"k.cu(4): warning #177-D: variable "unused" was declared but never referenced
  extern "C" __global__ void reduce(float*p,int n){ int unused; p[0]=helper(p,n); }
                                                        ^

Remark: The warnings can be suppressed with "-diag-suppress <warning-number>"

ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function '_Z1tILi3EEvPf' for 'sm_90'
ptxas info    : Function properties for _Z1tILi3EEvPf
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers, used 0 barriers
ptxas info    : Compile time = 56.665 ms
ptxas info    : Compiling entry function 'spill' for 'sm_90'
ptxas info    : Function properties for spill
ptxas         .     280 bytes stack frame, 440 bytes spill stores, 444 bytes spill loads
ptxas info    : Used 32 registers, used 1 barriers, 280 bytes cumulative stack size
ptxas info    : Compile time = 32.109 ms
ptxas info    : Compiling entry function 'reduce' for 'sm_90'
ptxas info    : Function properties for reduce
ptxas         .     1200 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 32 registers, used 0 barriers, 1200 bytes cumulative stack size
ptxas info    : Compile time = 7.536 ms
ptxas info    : Function properties for _Z6helperPfi
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'gemm' for 'sm_90'
ptxas info    : Function properties for gemm
ptxas         .     0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 14 registers, used 1 barriers, 32768 bytes smem
ptxas info    : Compile time = 1.356 ms
"#;

    fn check(log: &str, expected: &[(&str, [u32; 5])]) {
        let kernels: Vec<(String, [u32; 5])> = parse_log(log)
            .into_iter()
            .map(|(name, k)| {
                let spills = [k.spill_store_bytes, k.spill_load_bytes];
                (name, [k.registers, spills[0], spills[1], k.stack_bytes, k.shared_bytes])
            })
            .collect();
        let expected: Vec<_> =
            expected.iter().map(|(name, figures)| ((*name).to_owned(), *figures)).collect();
        assert_eq!(kernels, expected);
    }

    #[test]
    fn each_entry_function_has_its_figures() {
        check(
            FOUR_KERNELS,
            &[
                ("_Z1tILi3EEvPf", [8, 0, 0, 0, 0]),
                ("spill", [32, 440, 444, 280, 0]),
                ("reduce", [32, 0, 0, 1200, 0]),
                ("gemm", [14, 0, 0, 0, 32_768]),
            ],
        );
    }

    #[test]
    fn a_spilling_kernel_may_have_shared_memory_and_constants() {
        let log = "ptxas info    : Compiling entry function 'gemm' for 'sm_90'\n\
            ptxas info    : Function properties for gemm\n\
            ptxas         .     1048 bytes stack frame, 5500 bytes spill stores, 5556 bytes spill loads\n\
            ptxas info    : Used 64 registers, used 1 barriers, 1048 bytes cumulative stack size, \
            32768 bytes smem, 400 bytes cmem[0]\n";
        check(log, &[("gemm", [64, 5500, 5556, 1048, 32_768])]);
        assert_eq!(parse_log(log)["gemm"].spill_bytes(), 11_056);
    }

    #[test]
    fn logs_without_kernels_have_no_figures() {
        for log in [
            "",
            "ptxas info    : 0 bytes gmem\n",
            "nvrtc: warning: \"--std (-std)=c++17\" followed by \"--std (-std)=c++20\"\n",
            "ptxas info    : Used 8 registers\n",
            "Compiling entry function '",
        ] {
            check(log, &[]);
        }
    }
}
