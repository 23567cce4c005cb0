//! Packs that no git would make.

use sha1::{Digest, Sha1};

use super::server::{Reply, Server, root_of};
use super::*;

/// Zlib without compression, so that tests need no other crate.
fn stored(data: &[u8]) -> Vec<u8> {
    let mut out = vec![0x78, 0x01];
    let mut chunks = data.chunks(65535).peekable();
    while let Some(chunk) = chunks.next() {
        let length = chunk.len() as u16;
        out.push(u8::from(chunks.peek().is_none()));
        out.extend(length.to_le_bytes());
        out.extend((!length).to_le_bytes());
        out.extend(chunk);
    }
    let (a, b) = data.iter().fold((1_u32, 0_u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65521;
        (a, (a + b) % 65521)
    });
    out.extend((b << 16 | a).to_be_bytes());
    out
}

fn object_header(kind: u8, mut size: usize) -> Vec<u8> {
    let mut byte = kind << 4 | (size & 15) as u8;
    size >>= 4;
    let mut out = Vec::new();
    while size > 0 {
        out.push(byte | 0x80);
        byte = (size & 0x7f) as u8;
        size >>= 7;
    }
    out.push(byte);
    out
}

fn varint(mut size: usize) -> Vec<u8> {
    let mut out = Vec::new();
    while size > 0x7f {
        out.push((size & 0x7f) as u8 | 0x80);
        size >>= 7;
    }
    out.push(size as u8);
    out
}

/// A pack of one megabyte of zeros and, as a delta on it, so many copies of that.
fn bomb(n_copies: usize) -> Vec<u8> {
    const BASE_BYTES: usize = 1 << 20;
    const BLOB: u8 = 3;
    const REF_DELTA: u8 = 7;
    let base = vec![0; BASE_BYTES];
    let base_id = Sha1::digest([format!("blob {BASE_BYTES}\0").as_bytes(), &base].concat());
    let mut delta = [varint(BASE_BYTES), varint(n_copies * BASE_BYTES)].concat();
    for _ in 0..n_copies {
        // Copy from offset 0 (no bytes) so many: three bytes of size.
        delta.extend([0x80 | 0x40, 0x10]);
    }
    let mut pack = b"PACK\0\0\0\x02\0\0\0\x02".to_vec();
    pack.extend(object_header(BLOB, BASE_BYTES));
    pack.extend(stored(&base));
    pack.extend(object_header(REF_DELTA, delta.len()));
    pack.extend(base_id);
    pack.extend(stored(&delta));
    let trailer = Sha1::digest(&pack);
    pack.extend(trailer);
    pack
}

fn fetch_pack(pack: &[u8]) -> (Result<CommitId, Error>, World) {
    let world = World::new();
    let mut answer = b"0008NAK\n".to_vec();
    for chunk in pack.chunks(65515) {
        answer.extend(format!("{:04x}\x01", chunk.len() + 5).bytes());
        answer.extend(chunk);
    }
    answer.extend(b"0000");
    let server = Server::start(&root_of(&world.source()), move |request| {
        match request.method.as_str() {
            "POST" => {
                let head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-git-upload-pack-result\r\nConnection: close\r\n\r\n";
                Reply::Raw([head.as_bytes(), &answer].concat())
            }
            _ => Reply::Git,
        }
    });
    let url = RepositoryUrl::parse(&server.url("/source/.git"), &AddressPolicy::default()).unwrap();
    let mirror = Mirror::open_or_create(&world.path("mirrors"), &url).unwrap();
    (fetch(&mirror, None), world)
}

fn packs_in(world: &World) -> usize {
    let mirror = fs::read_dir(world.path("mirrors"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mirror = mirror.into_iter().find(|path| path.is_dir()).unwrap();
    super::super::upkeep::packs(&mirror).len()
}

/// Input: a delta bomb (docs/reference/security.md § 3.31). Answer: refused; nothing of it stays.
#[test]
fn a_delta_bomb_is_refused() {
    let (result, world) = fetch_pack(&bomb(600));
    assert!(result.is_err(), "{result:?}");
    assert_eq!(packs_in(&world), 0);
}

/// Input: a pack without the wanted commit (docs/reference/security.md § 3.31). Answer: the fetch is incomplete, and says so.
#[test]
fn a_sound_pack_without_the_wanted_commit_is_an_error() {
    // The same pack, of a size that is allowed: shows that it is otherwise well made.
    let (result, world) = fetch_pack(&bomb(2));
    assert!(
        matches!(result, Err(Error::Incomplete { .. })),
        "{result:?}"
    );
    assert_eq!(packs_in(&world), 1);
}

/// Input: a pack with a wrong checksum (docs/reference/security.md § 3.31). Answer: refused; nothing of it stays.
#[test]
fn a_pack_with_a_wrong_checksum_is_refused() {
    let mut pack = bomb(2);
    let length = pack.len();
    pack[length - 1] ^= 1;
    let (result, world) = fetch_pack(&pack);
    assert!(result.is_err(), "{result:?}");
    assert_eq!(packs_in(&world), 0);
}
