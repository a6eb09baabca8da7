//! The `gemm-tune` program: hands over to the library's command line.

fn main() -> std::process::ExitCode {
    gemm_tune::cli::main()
}
