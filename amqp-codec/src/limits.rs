/// What a peer may make this side accept. Each bound is checked before anything is taken, entered or reserved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "arbitrary", derive(arbitrary::Arbitrary))]
pub struct Limits {
    /// The largest body frame in bytes, the eight of its envelope included: the negotiated `frame_max`. Zero is no
    /// "unlimited" here, it refuses every body frame. Default: 131,072.
    pub frame_max: u32,
    /// The largest method or header frame in bytes, envelope included, where that is more than `frame_max`: brokers
    /// send content headers above what was negotiated. Default: 1 MiB.
    pub method_frame_max: u32,
    /// How many tables and arrays may lie inside each other, the outermost one counted. Default: 64.
    pub table_depth: u16,
    /// How many entries and array elements one table may have, nested ones included. Default: 65,536.
    pub table_entries: u32,
    /// The largest content body in bytes that an [`Assembler`](crate::Assembler) accepts. Default: 128 MiB.
    pub body_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frame_max: 131_072,
            method_frame_max: 1 << 20,
            table_depth: 64,
            table_entries: 65_536,
            body_max: 128 << 20,
        }
    }
}
