//! Any text is read as the YAML library reads it, or refused because it exceeds a limit; and the pass before it sees at
//! least the brackets, blocks and tokens that the library's scanner sees. Fewer would be a way around the limits.
#![no_main]

use std::mem::MaybeUninit;

use libfuzzer_sys::fuzz_target;
use steward_compiler::yaml::{LIMITS, scanned};
use unsafe_libyaml::*;

/// The most brackets and blocks that are open at once, and the tokens, until the end or an error.
fn of_library(text: &str) -> (usize, usize, usize) {
    let (mut brackets, mut blocks, mut tokens) = (0_usize, 0_usize, 0);
    let (mut most_brackets, mut most_blocks) = (0, 0);
    unsafe {
        let mut parser = MaybeUninit::<yaml_parser_t>::uninit();
        let parser = parser.as_mut_ptr();
        assert!(yaml_parser_initialize(parser).ok);
        // As the library does: a byte order mark is then a character of the text.
        yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(parser, text.as_ptr(), text.len() as u64);
        loop {
            let mut token = MaybeUninit::<yaml_token_t>::uninit();
            let token = token.as_mut_ptr();
            if yaml_parser_scan(parser, token).fail {
                break;
            }
            let kind = (*token).type_;
            match kind {
                YAML_FLOW_SEQUENCE_START_TOKEN | YAML_FLOW_MAPPING_START_TOKEN => brackets += 1,
                YAML_FLOW_SEQUENCE_END_TOKEN | YAML_FLOW_MAPPING_END_TOKEN => {
                    brackets = brackets.saturating_sub(1);
                }
                YAML_BLOCK_SEQUENCE_START_TOKEN | YAML_BLOCK_MAPPING_START_TOKEN => blocks += 1,
                YAML_BLOCK_END_TOKEN => blocks -= 1,
                _ => {}
            }
            tokens += 1;
            most_brackets = most_brackets.max(brackets);
            most_blocks = most_blocks.max(blocks);
            yaml_token_delete(token);
            if kind == YAML_STREAM_END_TOKEN {
                break;
            }
        }
        yaml_parser_delete(parser);
    }
    (most_brackets, most_blocks, tokens)
}

fuzz_target!(|bytes: &[u8]| {
    steward_compiler::fuzzing::yaml(bytes);
    let text = String::from_utf8_lossy(bytes);
    let Ok((brackets, blocks, tokens)) = scanned(&text, &LIMITS) else {
        return;
    };
    let real = of_library(&text);
    assert!(
        brackets >= real.0 && blocks >= real.1 && tokens + 2 >= real.2,
        "{:?}, the library {real:?}: {text:?}",
        (brackets, blocks, tokens)
    );
});
