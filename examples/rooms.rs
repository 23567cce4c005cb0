//! Prints the rooms of the three crates and which of them use which: `cargo run --example rooms`.

#[path = "../tests/it/rooms.rs"]
mod rooms;

use std::path::Path;

fn main() {
    for layers in [rooms::SERVER, rooms::COMPILER, rooms::LSM] {
        println!("{}", layers.src);
        for (room, uses) in layers.arrows(Path::new(env!("CARGO_MANIFEST_DIR"))) {
            let uses = uses.iter();
            let uses: Vec<String> = uses
                .map(|(room, files)| format!("{room} ({})", files.len()))
                .collect();
            println!("  {room} -> {}", uses.join(", "));
        }
    }
}
