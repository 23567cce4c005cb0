//! This program as it goes over to another machine, and the script that takes it there.
//!
//! Where the other machine has `gzip`, the program goes compressed, with 4 bytes of 10: to a network of ten thousand machines it
//! goes ten thousand times. It is compressed once, when it is first wanted so, and kept in memory.

use std::io;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::read::GzEncoder;
use sha2::{Digest, Sha256};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::OnceCell;

use crate::executor::limits::Limits;

/// The lines that the script prints when it runs, and may be sent the program: compressed, or as it is. What shells print at a
/// login comes before them, perhaps without an end of its last line. Nothing is sent before, as what they start then may read it.
pub(super) const SEND_GZIP: &str = "steward-send-gzip";
pub(super) const SEND_PLAIN: &str = "steward-send-plain";
/// The line that the script prints when the program is there.
pub(super) const READY: &str = "steward-is-here";
/// Bytes that are written at once.
pub(super) const CHUNK_BYTES: usize = 64 << 10;

/// This program.
#[derive(Debug)]
pub(super) struct Program {
    path: PathBuf,
    length: u64,
    /// Of the program as it runs, in hexadecimal digits.
    sha256: String,
    compressed: OnceCell<Bytes>,
}

impl Program {
    /// Read once: a program that is replaced while it runs is still the same one.
    ///
    /// # Errors
    /// The file of the running program cannot be read.
    pub(super) fn running() -> io::Result<&'static Self> {
        static RUNNING: OnceLock<Program> = OnceLock::new();
        if let Some(known) = RUNNING.get() {
            return Ok(known);
        }
        let path = crate::process::own_program()?;
        let mut digest = Sha256::new();
        let length = io::copy(&mut std::fs::File::open(&path)?, &mut digest)?;
        let sha256 = hex::encode(digest.finalize());
        Ok(RUNNING.get_or_init(|| Self {
            path,
            length,
            sha256,
            compressed: OnceCell::new(),
        }))
    }

    /// Sends it in the form that the script asked for by `mark`: its length there in decimal digits, a line of its own, and so many bytes.
    ///
    /// # Errors
    /// The file cannot be read, or the other machine ends, or it reads nothing for `patience` (`TimedOut`).
    pub(super) async fn send(
        &'static self,
        mark: &str,
        into: &mut (impl AsyncWrite + Unpin),
        patience: Duration,
    ) -> io::Result<()> {
        if mark == SEND_GZIP {
            let bytes = self.compressed.get_or_try_init(|| self.compress()).await?;
            into.write_all(format!("{}\n", bytes.len()).as_bytes())
                .await?;
            return carry(&bytes[..], into, patience).await;
        }
        let file = tokio::fs::File::open(&self.path).await?;
        into.write_all(format!("{}\n", self.length).as_bytes())
            .await?;
        carry(file, into, patience).await
    }

    /// A second of one processor: the fastest way leaves only a tenth more bytes than the best.
    async fn compress(&'static self) -> io::Result<Bytes> {
        let compressed = tokio::task::spawn_blocking(|| {
            let mut bytes = Vec::new();
            let file = std::fs::File::open(&self.path)?;
            io::copy(&mut GzEncoder::new(file, Compression::fast()), &mut bytes)?;
            bytes.shrink_to_fit();
            io::Result::Ok(Bytes::from(bytes))
        });
        compressed.await.map_err(io::Error::other)?
    }
}

/// What the shell there runs. It holds nothing but our own words and numbers, and no single quote.
pub(super) fn script(program: &Program, limits: &Limits) -> String {
    let system = format!("Linux {}", std::env::consts::ARCH);
    let sha256 = &program.sha256;
    let (keep, import) = (limits.keep.as_secs(), limits.import.as_secs());
    format!(
        "exec sh -c 'u=$(umask)
umask 077
[ \"$(uname -sm)\" = \"{system}\" ] || {{ echo \"steward: the server runs on {system}, this machine is $(uname -sm): run steward agent here instead\" >&2; exit 72; }}
d=
for p in \"${{TMPDIR:-/tmp}}\" /var/tmp \"$HOME\"; do
[ -d \"$p\" ] && d=$(mktemp -d \"$p/steward-XXXXXXXXXX\" 2>/dev/null) || continue
printf \"#!/bin/sh\n\" 2>/dev/null > \"$d/try\" && chmod 700 \"$d/try\" && \"$d/try\" 2>/dev/null && rm \"$d/try\" && break
rm -rf \"$d\"
d=
done
[ -n \"$d\" ] || {{ echo \"steward: programs cannot run in ${{TMPDIR:-/tmp}}, /var/tmp or $HOME: they are full, mounted noexec, or not for this user; name another folder in TMPDIR, by SetEnv of sshd_config\" >&2; exit 71; }}
trap \"rm -rf \\\"$d\\\" || {{ sleep 1; rm -rf \\\"$d\\\"; }}\" EXIT
trap \"exit 75\" HUP INT TERM PIPE
if command -v gzip >/dev/null 2>&1; then m={SEND_GZIP} unpack=\"gzip -dc\"; else m={SEND_PLAIN} unpack=cat; fi
printf \"\\n%s\\n\" $m
read -r n
head -c \"$n\" | $unpack > \"$d/steward\" || {{ echo \"steward: cannot write to $d\" >&2; exit 73; }}
[ \"$(sha256sum < \"$d/steward\" | cut -c 1-64)\" = {sha256} ] || {{ echo \"steward: the program arrived damaged or cut off\" >&2; exit 74; }}
chmod 700 \"$d/steward\"
printf \"\\n%s\\n\" {READY}
\"$d/steward\" executor --carried \"$d\" --umask \"$u\" --keep {keep} --import-timeout {import}'"
    )
}

/// Writes the program. The other side may hang before it has read all of it.
async fn carry(
    mut from: impl AsyncRead + Unpin,
    into: &mut (impl AsyncWrite + Unpin),
    patience: Duration,
) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let n_bytes = from.read(&mut chunk).await?;
        if n_bytes == 0 {
            return into.flush().await;
        }
        let written = into.write_all(&chunk[..n_bytes]);
        let Ok(written) = tokio::time::timeout(patience, written).await else {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                format!(
                    "the other machine read nothing of the program for {} s",
                    patience.as_secs()
                ),
            ));
        };
        written?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(100);

    /// Input: a machine that stops to read in the middle of the program (docs/reference/security.md § 3.19). Answer: the transfer ends with a reason when its time is over; one that is only slow gets all.
    #[tokio::test]
    async fn a_machine_that_reads_nothing_of_the_program_is_given_up() {
        let program = vec![7; 3 * CHUNK_BYTES];
        let (mut into, mut far) = tokio::io::duplex(CHUNK_BYTES);
        let hung = carry(&program[..], &mut into, SHORT).await.unwrap_err();
        assert!(hung.to_string().contains("read nothing"), "{hung}");
        let mut rest = vec![0; CHUNK_BYTES];
        far.read_exact(&mut rest).await.unwrap();
        let (mut into, mut far) = tokio::io::duplex(CHUNK_BYTES);
        let slow = async {
            let mut n_read = 0;
            while n_read < 3 * CHUNK_BYTES {
                tokio::time::sleep(SHORT / 10).await;
                n_read += far.read(&mut rest).await.unwrap();
            }
        };
        let (carried, ()) = tokio::join!(
            carry(&program[..], &mut into, Duration::from_secs(600)),
            slow
        );
        carried.unwrap();
    }
}
