//! Steps that run in tiles give what they give without: the same output, diagnostics, resources and model.

use std::sync::atomic::{AtomicU64, Ordering};

use steward_compiler::Tiling;

use crate::generate::Seeds;
use crate::{Arguments, case, steward};

/// Cases of a run without arguments.
const CASES: u64 = 1_500;
/// No round is so large.
const NONE: Tiling = Tiling {
    tile: usize::MAX,
    large: usize::MAX,
    early: 0,
};
const fn small(tile: usize, large: usize) -> Tiling {
    Tiling {
        tile,
        large,
        early: usize::MAX,
    }
}

/// As small as tiles can be, and with some neighbours.
const SMALL: [Tiling; 3] = [small(1, 1), small(2, 3), small(3, 2)];

/// Whether all cases are the same, and enough of them ran in tiles to the end.
pub fn run(arguments: &Arguments, seeds: &Seeds) -> bool {
    let n_cases = if arguments.tiles {
        arguments.cases
    } else {
        CASES
    };
    let next = AtomicU64::new(0);
    let (n_in_tiles, n_different) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..arguments.jobs {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= n_cases {
                        return;
                    }
                    let (kind, case) = case(arguments, number, seeds);
                    let (plain, _) = steward::bytes(&case, NONE);
                    for tiling in SMALL {
                        let (bytes, in_tiles) = steward::bytes(&case, tiling);
                        n_in_tiles.fetch_add(u64::from(in_tiles), Ordering::Relaxed);
                        if bytes != plain {
                            n_different.fetch_add(1, Ordering::Relaxed);
                            let listing = case.listing();
                            eprintln!(
                                "case {number} ({kind}) differs with {tiling:?}:\n{plain}\n--- in tiles\n{bytes}\n{listing}"
                            );
                        }
                    }
                }
            });
        }
    });
    let (n_in_tiles, n_different) = (n_in_tiles.into_inner(), n_different.into_inner());
    println!(
        "tiles: {n_cases} cases, {n_in_tiles} of {} runs stayed in tiles, {n_different} differ",
        3 * n_cases
    );
    n_different == 0 && n_in_tiles > n_cases / 20
}
