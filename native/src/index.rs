//! Entries of an index file: `hash 4 | physical offset 8 | seconds 4 | previous entry of the slot 4`.

pub const ENTRY: usize = 20;

/// Writes one entry for each hash; `previous` has the encoded last field of each entry.
pub fn write_entries(
    to: &mut [u8],
    hashes: &[u32],
    physicals: &[i64],
    timestamps: &[i64],
    begin: i64,
    previous: &[u8],
) {
    let columns = hashes
        .iter()
        .zip(physicals)
        .zip(timestamps)
        .zip(previous.chunks_exact(4));
    for (place, (((hash, physical), timestamp), before)) in to.chunks_exact_mut(ENTRY).zip(columns)
    {
        let seconds = timestamp
            .saturating_sub(begin)
            .div_euclid(1000)
            .clamp(0, i64::from(i32::MAX));
        place[..4].copy_from_slice(&hash.to_be_bytes());
        place[4..12].copy_from_slice(&physical.to_be_bytes());
        place[12..16].copy_from_slice(&(seconds as i32).to_be_bytes());
        place[16..].copy_from_slice(before);
    }
}
