//! Kernel of one `wgmma`, and the places of its operands in shared memory and registers.

use super::checked;
use crate::cpu::{GlobalMemory, KernelParameter, PtxModule, WriteTracking, launch};

/// Bytes of the shared memory of the test kernel: A in the first half, B in the second.
const SHARED: u32 = 64 << 10;

/// A matrix of 64 or N rows in shared memory. Strides in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct OperandLayout {
    /// Swizzle mode of the descriptor.
    pub(super) swizzle: u64,
    pub(super) outer: bool,
    pub(super) leading: u64,
    pub(super) stride: u64,
    /// Byte within the region of the operand where the matrix begins.
    pub(super) start: u64,
}

/// Adjacent along K, without a swizzle: cores of 128 bytes, the second along K after all of the first.
pub(super) const PLAIN: OperandLayout =
    OperandLayout { swizzle: 0, outer: false, leading: 0x1000, stride: 128, start: 0 };

pub(super) fn rows_of(swizzle: u64, stride: u64) -> OperandLayout {
    OperandLayout { swizzle, outer: false, leading: 16, stride, start: 0 }
}

pub(super) fn columns_of(swizzle: u64, leading: u64, stride: u64) -> OperandLayout {
    OperandLayout { swizzle, outer: true, leading, stride, start: 0 }
}

impl OperandLayout {
    /// Byte of an element of `size` bytes, by the canonical layouts of the ISA.
    fn place(self, size: u64, row: u64, column: u64) -> u64 {
        let width = [16, 128, 64, 32][self.swizzle as usize];
        let offset = match (self.outer, self.swizzle) {
            (false, 0) => {
                row % 8 * 16
                    + row / 8 * self.stride
                    + column * size / 16 * self.leading
                    + column * size % 16
            }
            (false, _) => row % 8 * width + row / 8 * self.stride + column * size,
            (true, 0) => {
                row * size % 16
                    + row * size / 16 * self.stride
                    + column % 8 * 16
                    + column / 8 * self.leading
            }
            (true, _) => {
                row * size % width
                    + row * size / width * self.leading
                    + column % 8 * width
                    + column / 8 * self.stride
            }
        };
        let address = self.start + offset;
        address ^ (address >> 7 & [0, 7, 3, 1][self.swizzle as usize]) << 4
    }

    fn descriptor(self) -> u64 {
        self.swizzle << 62 | self.stride >> 4 << 32 | self.leading >> 4 << 16 | self.start >> 4
    }
}

/// A product of a warpgroup.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProductCase {
    /// Types of D, A and B as in the opcode.
    pub(super) types: &'static str,
    pub(super) columns: u32,
    pub(super) depth: u32,
    /// A in registers without one.
    pub(super) a: Option<OperandLayout>,
    pub(super) b: OperandLayout,
    pub(super) scale_d: &'static str,
    /// `, imm-scale-a, imm-scale-b` and transpositions.
    pub(super) immediates: &'static str,
}

impl ProductCase {
    fn size(&self) -> u32 {
        32 / self.depth
    }

    fn registers(&self) -> u32 {
        if self.types.starts_with("f16") { self.columns / 4 } else { self.columns / 2 }
    }

    pub(super) fn kernel(&self) -> String {
        let list = |name: &str, count: u32| {
            let names: Vec<_> = (0..count).map(|at| format!("%{name}{at}")).collect();
            format!("{{{}}}", names.join(", "))
        };
        let count = self.registers();
        let each = |line: &str, count: u32| {
            let line =
                |at: u32| line.replace('#', &at.to_string()).replace('@', &(4 * at).to_string());
            (0..count).map(line).collect::<String>()
        };
        let a = if self.a.is_some() { "%rd8".to_owned() } else { list("a", 4) };
        format!(
            ".version 9.0\n.target sm_90a\n.address_size 64\n\
             .visible .entry k(.param .u64 image, .param .u64 sums)\n{{\n.reg .pred %p<9>;\n\
             .reg .b32 %r<30>;\n.reg .b32 %d<128>;\n.reg .b32 %a<4>;\n.reg .b64 %rd<30>;\n\
             .shared .align 1024 .b8 s[{SHARED}];\n\
             ld.param.u64 %rd1, [image];\nld.param.u64 %rd2, [sums];\nmov.u32 %r0, %tid.x;\n\
             mul.wide.u32 %rd3, %r0, 4;\nadd.s64 %rd4, %rd1, %rd3;\nmov.u32 %r9, s;\n\
             cvt.u32.u64 %r2, %rd3;\nadd.u32 %r9, %r9, %r2;\nmov.u32 %r1, %r0;\n\
             again: ld.global.u32 %r2, [%rd4];\nst.shared.u32 [%r9], %r2;\nadd.s64 %rd4, %rd4, 512;\n\
             add.u32 %r9, %r9, 512;\nadd.u32 %r1, %r1, 128;\nsetp.lt.u32 %p1, %r1, {};\n@%p1 bra again;\n\
             fence.proxy.async;\nbar.sync 0;\n\
             mov.u32 %r3, s;\nshr.u32 %r3, %r3, 4;\ncvt.u64.u32 %rd7, %r3;\n\
             add.s64 %rd8, %rd7, {};\nadd.s64 %rd9, %rd7, {};\n\
             mul.wide.u32 %rd5, %r0, {};\nadd.s64 %rd5, %rd2, %rd5;\nmul.wide.u32 %rd6, %r0, 16;\n\
             add.s64 %rd6, %rd1, %rd6;\nadd.s64 %rd6, %rd6, {SHARED};\n{}{}\
             setp.ne.b32 %p2, %r0, 4096;\nsetp.eq.b32 %p3, %r0, 4096;\n\
             wgmma.fence.sync.aligned;\n\
             wgmma.mma_async.sync.aligned.m64n{}k{}.{} {}, {a}, %rd9, {}{};\n\
             wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n{}ret;\n}}\n",
            SHARED / 4,
            self.a.map_or(0, OperandLayout::descriptor),
            self.b.descriptor() + u64::from(SHARED / 2 / 16),
            4 * count,
            each("ld.global.u32 %d#, [%rd5+@];\n", count),
            // The fragments of A are behind the image.
            each("ld.global.u32 %a#, [%rd6+@];\n", 4),
            self.columns,
            self.depth,
            self.types,
            list("d", count),
            self.scale_d,
            self.immediates,
            each("st.global.u32 [%rd5+@], %d#;\n", count),
        )
    }

    /// Runs the product. `a` and `b` return the bits of elements by row and column along K, `c` those of the sum's
    /// registers by row and column.
    pub(super) fn run(
        &self,
        a: impl Fn(u32, u32) -> u32,
        b: impl Fn(u32, u32) -> u32,
        c: impl Fn(u32, u32) -> u32 + Sync,
    ) -> Vec<Vec<u32>> {
        let size = self.size();
        let mut image = vec![0_u8; SHARED as usize + 128 * 16];
        let mut put = |place: usize, bits: u32| {
            image[place..][..size as usize].copy_from_slice(&bits.to_le_bytes()[..size as usize]);
        };
        for (row, column) in (0..64).flat_map(|row| (0..self.depth).map(move |k| (row, k))) {
            let place = match self.a {
                Some(layout) => layout.place(size.into(), row.into(), column.into()),
                None => {
                    // Register i of a lane has row lane / 4 + 8 (i % 2), and the words along K 4 (i / 2) + lane % 4.
                    let word = column * size / 4;
                    let thread = row / 16 * 32 + row % 8 * 4 + word % 4;
                    let register = row % 16 / 8 + 2 * (word / 4);
                    u64::from(SHARED + 16 * thread + 4 * register + column * size % 4)
                }
            };
            put(place as usize, a(row, column));
        }
        for (row, column) in
            (0..self.columns).flat_map(|row| (0..self.depth).map(move |k| (row, k)))
        {
            let place = self.b.place(size.into(), row.into(), column.into());
            put(SHARED as usize / 2 + place as usize, b(row, column));
        }
        let text = self.kernel();
        let program = PtxModule::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let mut memory = GlobalMemory::new(WriteTracking::Written);
        let from = memory.allocate(image.len() as u64).unwrap();
        memory.write(from, &image).unwrap();
        let count = self.registers();
        let sums = memory.allocate(u64::from(128 * 4 * count)).unwrap();
        let packed = self.types.starts_with("f16");
        // Row and column of half `part` of a register.
        let element = |at: u64, part: u32| {
            let (thread, at) = (at as u32 / count, at as u32 % count);
            let (pair, right) = if packed { (at, part) } else { (at / 2, at % 2) };
            let row = thread / 32 * 16 + thread % 32 / 4 + 8 * (pair % 2);
            (row, 8 * (pair / 2) + 2 * (thread % 4) + right)
        };
        let start = |at: u64, part: u32| {
            let (row, column) = element(at, part);
            c(row, column)
        };
        let word = |at: u64| match packed {
            true => start(at, 0) | start(at, 1) << 16,
            false => start(at, 0),
        };
        memory.fill_with(sums, u64::from(128 * count), word).unwrap();
        let parameters = [KernelParameter::Long(from), KernelParameter::Long(sums)];
        let extents = ([1; 3], [128, 1, 1]);
        launch(&program.kernels()[0], extents, 0, &parameters, &memory, &checked())
            .unwrap_or_else(|error| panic!("{self:?}: {error}"));
        let bytes = memory.read(sums, u64::from(128 * 4 * count)).unwrap();
        let mut found = vec![vec![0; self.columns as usize]; 64];
        for (at, chunk) in bytes.chunks(4).enumerate() {
            let word = u32::from_le_bytes(chunk.try_into().unwrap());
            for part in 0..if packed { 2 } else { 1 } {
                let (row, column) = element(at as u64, part);
                let bits = if packed { word >> (16 * part) & 0xffff } else { word };
                found[row as usize][column as usize] = bits;
            }
        }
        found
    }
}
