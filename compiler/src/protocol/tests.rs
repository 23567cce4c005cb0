use super::*;

fn frame(body: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
    frame.extend_from_slice(body);
    frame
}

/// What the smallest stack of ours reads: that of a thread of the server or an executor.
fn on_small_stack<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let builder = std::thread::Builder::new().stack_size(2 << 20);
        builder.spawn_scoped(scope, work).unwrap().join().unwrap()
    })
}

/// `{"result": {"id": 1, "value": <value>}}`.
fn result(value: &[u8]) -> Vec<u8> {
    let mut body = b"\x81\xa6result\x82\xa2id\x01\xa5value".to_vec();
    body.extend_from_slice(value);
    frame(&body)
}

/// Input: a frame of arrays, maps, extensions or annotations nested 100 000 deep from a hostile Python host (docs/reference/security.md § 4.2).
/// Answer: an error, on the smallest stack.
#[test]
fn a_frame_of_values_in_values_without_end_is_refused_and_not_followed() {
    const DEPTH: usize = 100_000;
    let list_of = |n| b"\x81\xa4list".repeat(n);
    for (what, value) in [
        ("arrays", b"\x91".repeat(DEPTH)),
        ("maps", b"\x81\xa1a".repeat(DEPTH)),
        ("keys that are maps", b"\x81".repeat(DEPTH)),
        ("long arrays", b"\xdd\x7f\xff\xff\xff".repeat(DEPTH)),
        ("long maps", b"\xdf\xff\xff\xff\xff".repeat(DEPTH)),
        ("annotations", list_of(DEPTH)),
        ("deepest", b"\x91".repeat(10_000)),
    ] {
        let error = on_small_stack(|| {
            let read = read_frame::<FromHost>(&mut &result(&value)[..]);
            let error = read.unwrap_err().to_string();
            let annotation = read_frame::<Annotation>(&mut &frame(&value)[..]);
            assert!(annotation.is_err(), "{what}");
            let json = read_frame::<serde_json::Value>(&mut &frame(&value)[..]);
            assert!(json.is_err(), "{what}");
            error
        });
        assert!(error.contains("nested"), "{what}: {error}");
    }
}

#[test]
fn what_is_nested_as_deep_as_frames_may_be_is_read_on_the_smallest_stack() {
    on_small_stack(|| {
        let mut value = b"\x91".repeat(390);
        value.push(0xc0);
        let read = read_frame::<FromHost>(&mut &result(&value)[..]).unwrap();
        let written = read.map(|message| {
            let mut written = Vec::new();
            write_frame(&mut written, &message).unwrap();
            format!("{message:?}").len() + written.len()
        });
        assert!(written.is_some_and(|n_bytes| n_bytes > 390));
        let mut annotation = b"\x81\xa4list".repeat(390);
        annotation.extend_from_slice(b"\xa3any");
        read_frame::<Annotation>(&mut &frame(&annotation)[..]).unwrap();
        let mut json = b"\x81\xa1a".repeat(390);
        json.push(1);
        read_frame::<serde_json::Value>(&mut &frame(&json)[..]).unwrap();
    });
}

/// Input: a frame that announces more than it has: its own length, that of an array, a text, an extension (docs/reference/security.md § 4.2).
/// Answer: an error, and no memory for what was announced.
#[test]
fn announced_lengths_are_not_trusted() {
    let mut endless = u32::MAX.to_be_bytes().to_vec();
    endless.push(0xc0);
    assert!(read_frame::<FromHost>(&mut &endless[..]).is_err());
    endless[..4].copy_from_slice(&MAX_FRAME_BYTES.to_be_bytes());
    assert!(read_frame::<FromHost>(&mut &endless[..]).is_err());
    for value in [
        &b"\xdd\xff\xff\xff\xff"[..],
        b"\xdf\xff\xff\xff\xff",
        b"\xdb\xff\xff\xff\xff",
        b"\xc6\xff\xff\xff\xff",
        b"\xc9\xff\xff\xff\xff\x05",
    ] {
        assert!(read_frame::<FromHost>(&mut &result(value)[..]).is_err());
        assert!(read_frame::<Vec<rmpv::Value>>(&mut &frame(value)[..]).is_err());
    }
}

#[test]
fn values_of_every_kind_have_their_length() {
    use rmpv::Value;
    let texts = [0, 31, 32, 255, 256, 65_535, 65_536].map(|n| "a".repeat(n));
    let mut all: Vec<Value> = texts
        .iter()
        .map(|text| Value::from(text.as_str()))
        .collect();
    all.extend(texts.iter().map(|text| Value::Binary(text.clone().into())));
    all.extend([0, 1, 2, 3, 4, 8, 16, 17, 256, 65_536].map(|n| Value::Ext(5, vec![1; n])));
    all.extend([0, 127, 255, 65_535, 4_294_967_295, u64::MAX].map(Value::from));
    all.extend([-1, -32, -128, -32_768, i64::from(i32::MIN), i64::MIN].map(Value::from));
    all.extend([Value::Nil, true.into(), 1.5_f32.into(), 1.5_f64.into()]);
    all.extend([0, 15, 16, 65_536].map(|n| Value::Array(vec![1.into(); n])));
    all.extend([0, 15, 16, 65_536].map(|n| Value::Map(vec![(1.into(), 2.into()); n])));
    // A length that is wrong would end the pass early, or find another depth.
    for value in &all {
        let nested = |depth: usize| {
            let bottom = Value::Array(Vec::new());
            let nested = (0..depth).fold(bottom, |inner, _| Value::Array(vec![inner]));
            let mut body = Vec::new();
            let both = Value::Array(vec![value.clone(), nested]);
            rmpv::encode::write_value(&mut body, &both).unwrap();
            body
        };
        depth::check(&nested(399)).unwrap();
        assert!(depth::check(&nested(400)).is_err(), "{value:.60}");
    }
}
