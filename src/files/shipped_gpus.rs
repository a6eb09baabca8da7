//! What the program has inside for some GPU models: the limits of the device, the learned models of its kernels, and the
//! records of tuned problems. Another GPU needs these three files, an entry here, and its properties in
//! `src/model/device.rs`.

/// The files of a GPU model.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShippedGpu {
    /// Its name as file names have it (`Device::slug`).
    pub(crate) slug: &'static str,
    /// `devices/SLUG.toml`: its limits.
    pub(crate) limits: &'static str,
    /// `results/SLUG.model.json`: its learned models.
    pub(crate) learned_model: &'static str,
    /// `results/SLUG.toml`: its tuning database, compressed by `build.rs`.
    pub(crate) database: &'static [u8],
}

/// In the order of `Device::known`.
pub(crate) static SHIPPED_GPUS: [ShippedGpu; 2] = [
    ShippedGpu {
        slug: "nvidia-h200",
        limits: include_str!("../../devices/nvidia-h200.toml"),
        learned_model: include_str!("../../results/nvidia-h200.model.json"),
        database: include_bytes!(concat!(env!("OUT_DIR"), "/nvidia-h200.toml.gz")),
    },
    ShippedGpu {
        slug: "nvidia-h100-80gb-hbm3",
        limits: include_str!("../../devices/nvidia-h100-80gb-hbm3.toml"),
        learned_model: include_str!("../../results/nvidia-h100-80gb-hbm3.model.json"),
        database: include_bytes!(concat!(env!("OUT_DIR"), "/nvidia-h100-80gb-hbm3.toml.gz")),
    },
];
