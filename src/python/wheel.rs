//! Writes a wheel: a ZIP archive with a list of its files. Sources: the packaging specifications "Binary distribution
//! format" and "Recording installed projects"; APPNOTE.TXT of the ZIP format, 4.3.
//!
//! The contents are stored as they are. Nothing in the archive depends on the time or the machine, so the same contents
//! make the same bytes.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// The time of all files: the first that the format knows, 1 January 1980, as its two fields.
const TIME: u16 = 0;
const DATE: u16 = 0x21;
/// The version of the format that is needed to read what is stored as it is: 1.0.
const VERSION: u16 = 10;
/// "Made by" Unix, so that the attributes below are modes.
const MADE_BY: u16 = (3 << 8) | VERSION;
/// A plain file that everybody reads: 0100644.
const MODE: u32 = 0o100_644 << 16;
/// Names are UTF-8.
const FLAGS: u16 = 1 << 11;

/// A wheel of the files `contents` (path, content), whose metadata are in the folder `info`; its record is added.
pub(super) fn wheel(contents: &[(&str, &[u8])], info: &str) -> Vec<u8> {
    let (mut archive, mut record) = (Archive::default(), String::new());
    for &(path, content) in contents {
        let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(content));
        record.push_str(&format!("{path},sha256={digest},{}\n", content.len()));
        archive.add(path, content);
    }
    let path = format!("{info}/RECORD");
    record.push_str(&format!("{path},,\n"));
    archive.add(&path, record.as_bytes());
    archive.finish()
}

/// A ZIP archive that grows: the files one after the other, and what will be its directory.
#[derive(Default)]
struct Archive {
    bytes: Vec<u8>,
    directory: Vec<u8>,
    n_files: u16,
}

impl Archive {
    fn add(&mut self, path: &str, content: &[u8]) {
        let offset = size(self.bytes.len());
        let mut common = Vec::new();
        for field in [VERSION, FLAGS, 0, TIME, DATE] {
            common.extend(field.to_le_bytes());
        }
        let length = size(content.len());
        for field in [crc32(content), length, length] {
            common.extend(field.to_le_bytes());
        }
        let name_length = u16::try_from(path.len()).unwrap_or(u16::MAX);
        common.extend(name_length.to_le_bytes());
        common.extend(0_u16.to_le_bytes());
        self.bytes.extend(b"PK\x03\x04");
        self.bytes.extend(&common);
        self.bytes.extend(path.as_bytes());
        self.bytes.extend(content);
        self.directory.extend(b"PK\x01\x02");
        self.directory.extend(MADE_BY.to_le_bytes());
        self.directory.extend(&common);
        // No comment, on the first disk, not marked as text.
        self.directory.extend([0; 6]);
        self.directory.extend(MODE.to_le_bytes());
        self.directory.extend(offset.to_le_bytes());
        self.directory.extend(path.as_bytes());
        self.n_files += 1;
    }

    fn finish(mut self) -> Vec<u8> {
        let offset = size(self.bytes.len());
        self.bytes.extend(&self.directory);
        self.bytes.extend(b"PK\x05\x06");
        self.bytes.extend([0; 4]);
        for _ in 0..2 {
            self.bytes.extend(self.n_files.to_le_bytes());
        }
        self.bytes.extend(size(self.directory.len()).to_le_bytes());
        self.bytes.extend(offset.to_le_bytes());
        self.bytes.extend(0_u16.to_le_bytes());
        self.bytes
    }
}

/// Our sources are far from the 4 GiB of the format.
fn size(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

fn crc32(content: &[u8]) -> u32 {
    let mut sum = flate2::Crc::new();
    sum.update(content);
    sum.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_format() {
        // The check value that catalogues of checksums give.
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
        assert_eq!(crc32(b""), 0);
    }

    #[test]
    fn the_same_contents_make_the_same_archive() {
        let contents = [("a/b.py", &b"x = 1\n"[..]), ("c.py", b"")];
        let made = wheel(&contents, "x-1.dist-info");
        assert_eq!(made, wheel(&contents, "x-1.dist-info"));
        let record = b"x-1.dist-info/RECORD,,\n";
        assert!(made.windows(record.len()).any(|part| part == record));
    }
}
