//! The `gemm-tune` program: runs the library's command line.

fn main() -> std::process::ExitCode {
    gemm_tune::cli::main()
}
