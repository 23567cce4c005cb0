//! For fuzzing: a git server that answers anything, and all that a fetch from it passes.
//!
//! An input is a list of answers with a line `%%` between them: the first for the question for refs, the next ones for each
//! question for objects. The first byte of an answer says what the rest is, because a fuzzer cannot guess lengths, ids and
//! sums, and would never come behind what checks them:
//!
//! - `R`: the whole answer as it goes over the wire, its head included;
//! - `B`: the body of an answer with a good head;
//! - `L`: lines, each of which becomes a packet line; an empty one ends a list;
//! - `O`: objects with a line `&&` between them, which become a good pack. The first byte of an object is its kind: `c`ommit,
//!   `t`ree, `b`lob, ta`g`; `d`elta, with the number of its base and then the instructions; `x`: bytes that are put into the
//!   pack as they are.
//!
//! In lines and objects, `#3` stands for the id of the object number 3 in hex, and `@3` for its bytes.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use sha1::{Digest, Sha1};

use crate::git::url::{AddressPolicy, RepositoryUrl};
use crate::git::{
    CheckoutLimits, Credentials, FetchOptions, Mirror, Reach, checkout_with, commit_info,
    submodules, tree_id,
};

/// More objects have no digit.
const MAX_OBJECTS: usize = 10;
/// What is asked and answered takes far less on one machine.
const PATIENCE: Duration = Duration::from_secs(2);

/// Any answers of a git server to a whole fetch: it ends, with a commit whose files can be laid out within their folder, or
/// with an error that can be logged.
pub fn fetch(bytes: &[u8]) {
    let _ = whole(bytes);
}

/// What came of it; `None`: there is no server.
fn whole(bytes: &[u8]) -> Option<Result<(), crate::git::Error>> {
    let server = server()?;
    server.prepare(bytes);
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    let url = format!("http://{}/r.git", server.address);
    let url = RepositoryUrl::parse(&url, &AddressPolicy::default());
    let (Ok(folder), Ok(url)) = (folder, url) else {
        return None;
    };
    let fetched = fetch_into(folder.path(), &url);
    if let Err(error) = &fetched {
        let cause = std::error::Error::source(error).map(ToString::to_string);
        let message = format!("{error}: {}", cause.unwrap_or_default());
        assert!(!message.chars().any(char::is_control), "{message:?}");
        assert!(message.len() < 4_000, "{} bytes to log", message.len());
    }
    let names = std::fs::read_dir(folder.path());
    for entry in names.into_iter().flatten().flatten() {
        let name = entry.file_name();
        assert!(name == "mirrors" || name == "checkouts", "{name:?}");
    }
    Some(fetched)
}

fn fetch_into(folder: &Path, url: &RepositoryUrl) -> Result<(), crate::git::Error> {
    let options = FetchOptions {
        time: Duration::from_secs(5),
        silence: PATIENCE,
        bytes: 16 << 20,
        object_bytes: 4 << 20,
        objects: 10_000,
        reach: Reach::Any,
        ..FetchOptions::default()
    };
    let limits = CheckoutLimits {
        entries: 200,
        total_bytes: 1 << 20,
        file_bytes: 1 << 18,
        ..CheckoutLimits::default()
    };
    let mirror = Mirror::open_or_create(&folder.join("mirrors"), url)?;
    let commit = mirror.fetch(None, &Credentials::default(), &options)?;
    let _ = commit_info(&mirror, commit)?;
    let _ = tree_id(&mirror, commit)?;
    let _ = submodules(&mirror, commit)?;
    let checkouts = folder.join("checkouts");
    let place = checkout_with(&mirror, commit, &checkouts, &limits)?;
    assert!(place.starts_with(&checkouts), "{}", place.display());
    Ok(())
}

/// A server on this machine that answers what it was told to, whatever it is asked.
struct Server {
    address: SocketAddr,
    answers: Arc<Mutex<VecDeque<Vec<u8>>>>,
}

fn server() -> Option<&'static Server> {
    static SERVER: OnceLock<Option<Server>> = OnceLock::new();
    let start = || {
        let listener = TcpListener::bind("127.0.0.1:0").ok()?;
        let address = listener.local_addr().ok()?;
        let answers: Arc<Mutex<VecDeque<Vec<u8>>>> = Arc::default();
        let left = Arc::clone(&answers);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let answer = left
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .pop_front();
                // A client that gives up early is none of its business.
                let _ = answer_one(stream, &answer.unwrap_or_default());
            }
        });
        Some(Server { address, answers })
    };
    SERVER.get_or_init(start).as_ref()
}

/// Reads a request and its body, writes the answer, and closes.
fn answer_one(mut stream: TcpStream, answer: &[u8]) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (mut asked, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let n_read = stream.read(&mut part)?;
        asked.extend_from_slice(&part[..n_read]);
        let end = asked.windows(4).position(|four| four == b"\r\n\r\n");
        let Some(end) = end else {
            if n_read == 0 {
                return Ok(());
            }
            continue;
        };
        let head = String::from_utf8_lossy(&asked[..end]).to_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:"));
        let length: usize = length
            .and_then(|length| length.trim().parse().ok())
            .unwrap_or(0);
        if n_read == 0 || asked.len() >= end + 4 + length {
            return stream.write_all(answer);
        }
    }
}

impl Server {
    fn prepare(&self, bytes: &[u8]) {
        let mut left = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        *left = git_answers(bytes).into();
    }
}

/// What goes over the wire for an input: the first for the question for refs, the next ones for each question for objects.
pub fn git_answers(bytes: &[u8]) -> Vec<Vec<u8>> {
    let parts = split(bytes, b"\n%%\n");
    let objects = parts
        .iter()
        .find_map(|part| part.strip_prefix(b"O"))
        .map(objects)
        .unwrap_or_default();
    let answers = parts.iter().enumerate().map(|(at, part)| {
        let kind = if at == 0 { "advertisement" } else { "result" };
        answer(part, kind, &objects)
    });
    answers.collect()
}

fn answer(part: &[u8], kind: &str, objects: &[Object]) -> Vec<u8> {
    let Some((first, rest)) = part.split_first() else {
        return Vec::new();
    };
    let body = match first {
        b'R' => return rest.to_vec(),
        b'L' => lines(rest, objects),
        b'O' => [b"0008NAK\n".to_vec(), pack(objects)].concat(),
        _ => rest.to_vec(),
    };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-{kind}\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    [head.into_bytes(), body].concat()
}

fn split<'a>(bytes: &'a [u8], between: &[u8]) -> Vec<&'a [u8]> {
    let (mut parts, mut rest) = (Vec::new(), bytes);
    let find = |rest: &[u8]| {
        rest.windows(between.len())
            .position(|window| window == between)
    };
    while let Some(at) = find(rest) {
        parts.push(&rest[..at]);
        rest = &rest[at + between.len()..];
    }
    parts.push(rest);
    parts
}

fn lines(text: &[u8], objects: &[Object]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in text.split(|byte| *byte == b'\n') {
        if line.is_empty() {
            out.extend_from_slice(b"0000");
            continue;
        }
        let line = with_ids(line, objects);
        out.extend_from_slice(format!("{:04x}", line.len() + 5).as_bytes());
        out.extend_from_slice(&line);
        out.push(b'\n');
    }
    out
}

/// An object of a pack, and its id.
struct Object {
    kind: u8,
    content: Vec<u8>,
    /// Of a delta: which object it is made from.
    base: usize,
    id: [u8; 20],
}

fn objects(text: &[u8]) -> Vec<Object> {
    let mut objects: Vec<Object> = Vec::new();
    for part in split(text, b"\n&&\n").into_iter().take(MAX_OBJECTS) {
        let (kind, mut content) = match part.split_first() {
            Some((kind, content)) => (*kind, content),
            None => (b'b', part),
        };
        let mut base = 0;
        if kind == b'd'
            && let Some((digit, rest)) = content.split_first()
        {
            (base, content) = (usize::from(digit.wrapping_sub(b'0')), rest);
        }
        let content = with_ids(content, &objects);
        let name = match kind {
            b'c' => "commit",
            b't' => "tree",
            b'g' => "tag",
            _ => "blob",
        };
        let mut digest = Sha1::new();
        digest.update(format!("{name} {}\0", content.len()));
        digest.update(&content);
        objects.push(Object {
            kind,
            base,
            id: digest.finalize().into(),
            content,
        });
    }
    objects
}

/// The text with the ids of objects for what stands for them.
fn with_ids(text: &[u8], objects: &[Object]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        let number = text.get(at + 1).map(|digit| digit.wrapping_sub(b'0'));
        let object = number.and_then(|number| objects.get(usize::from(number)));
        match (byte, object) {
            (b'#', Some(object)) => out.extend_from_slice(hex::encode(object.id).as_bytes()),
            (b'@', Some(object)) => out.extend_from_slice(&object.id),
            (byte, _) => {
                out.push(*byte);
                at += 1;
                continue;
            }
        }
        at += 2;
    }
    out
}

fn pack(objects: &[Object]) -> Vec<u8> {
    let n_objects = u32::try_from(objects.len()).unwrap_or(0);
    let mut out = b"PACK\0\0\0\x02".to_vec();
    out.extend_from_slice(&n_objects.to_be_bytes());
    for object in objects {
        let kind = match object.kind {
            b'x' => {
                out.extend_from_slice(&object.content);
                continue;
            }
            b'c' => 1,
            b't' => 2,
            b'g' => 4,
            b'd' => 7,
            _ => 3,
        };
        header(kind, object.content.len(), &mut out);
        if kind == 7 {
            let base = objects.get(object.base);
            out.extend_from_slice(&base.map_or([0; 20], |base| base.id));
        }
        let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
        let _ = packed.write_all(&object.content);
        out.extend_from_slice(&packed.finish().unwrap_or_default());
    }
    let sum = Sha1::digest(&out);
    out.extend_from_slice(&sum);
    out
}

/// Kind and size of an object: three bits and four, then seven a byte.
fn header(kind: u8, mut size: usize, out: &mut Vec<u8>) {
    let mut byte = kind << 4 | (size & 15) as u8;
    size >>= 4;
    while size > 0 {
        out.push(byte | 0x80);
        byte = (size & 0x7f) as u8;
        size >>= 7;
    }
    out.push(byte);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::git::Error;

    #[test]
    fn what_the_fuzzer_answers_comes_through_the_whole_fetch() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/seeds/fetch");
        let of = |name: &str| whole(&std::fs::read(seeds.join(name)).unwrap()).unwrap();
        for name in ["plain", "delta", "folders", "tag"] {
            assert!(of(name).is_ok(), "{name}: {:?}", of(name));
        }
        assert!(matches!(of("refused"), Err(Error::Authentication { .. })));
        assert!(matches!(of("sha256"), Err(Error::UnsupportedFormat { .. })));
        for name in [
            "side_band",
            "redirect",
            "chunked",
            "error",
            "shallow",
            "raw",
        ] {
            assert!(of(name).is_err(), "{name}");
        }
    }
}
