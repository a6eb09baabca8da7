//! Lines of the compiler log that say that products of warpgroups (`wgmma`) lost what they are for: the assembler waits
//! for each of them, or ignores how registers are shared out. The kernel is correct and slow, so it is not worth a
//! measurement.

/// Numbers of these advisories: products that are serialized (C7510 to C7515), and `setmaxnreg` that is ignored (C7504 to
/// C7508).
const ADVISORIES: std::ops::RangeInclusive<u32> = 7504..=7515;

/// Returns the first such line of `log`; `None` without one.
pub fn lost_overlap(log: &str) -> Option<&str> {
    log.lines().map(str::trim).find(|line| {
        let number = line.split_once("(C").and_then(|(_, rest)| rest.split_once(')'));
        number.and_then(|(digits, _)| digits.parse().ok()).is_some_and(|n| ADVISORIES.contains(&n))
    })
}

#[cfg(test)]
mod tests {
    use super::super::compiler::{Compile, CompileRequest, Compiler};
    use super::super::target::CompileTarget;
    use super::super::testing::nvrtc_or_skip;
    use super::*;

    #[test]
    fn advisories_are_found_by_their_number() {
        for (number, is_found) in
            [(7503, false), (7504, true), (7508, true), (7515, true), (7516, false), (7517, false)]
        {
            let line = format!("ptxas info    : (C{number}) Potential Performance Loss: reason");
            let log =
                format!("gemm.cu(3): warning #177-D\n{line}\nptxas info    : Used 30 registers\n");
            assert_eq!(lost_overlap(&log), is_found.then_some(line.as_str()), "{number}");
        }
        assert_eq!(lost_overlap(""), None);
        assert_eq!(lost_overlap("(C) (Cx) (C75041) f(C7504"), None);
    }

    /// Products whose sums are changed while they are under way, and the same without that.
    #[test]
    fn the_assembler_says_that_products_are_serialized() {
        let Some(nvrtc) = nvrtc_or_skip() else { return };
        let target = CompileTarget::Cubin("sm_90a".parse().unwrap());
        let compiler = Compiler::new(nvrtc, None, target).unwrap();
        let log = |between: &str| {
            let source = format!(
                r#"extern "C" __global__ void __launch_bounds__(128, 1)
gemm(float *c, unsigned long long a, unsigned long long b, int tiles) {{
    float d[4] = {{}};
    for (int tile = 0; tile < tiles; ++tile) {{
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 "
                     "{{%0, %1, %2, %3}}, %4, %5, 1, 1, 1, 0, 0;"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) : "l"(a + tile), "l"(b + tile));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        {between}
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }}
    for (int i = 0; i < 4; ++i)
        c[threadIdx.x * 4 + i] = d[i];
}}"#
            );
            let name = "gemm.cu".to_owned();
            compiler
                .compile(&CompileRequest { source: source.into(), name, options: vec![] })
                .unwrap()
                .log
        };
        let serialized = log("d[0] += 1;");
        assert!(
            lost_overlap(&serialized).is_some_and(|line| line.contains("serialized")),
            "{serialized}"
        );
        let whole = log("");
        assert_eq!(lost_overlap(&whole), None, "{whole}");
    }
}
