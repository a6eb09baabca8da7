//! Rebuilds the program when a file appears in the folders that are embedded in it.

fn main() {
    println!("cargo:rerun-if-changed=templates");
    println!("cargo:rerun-if-changed=search-spaces");
}
