//! Makes a case smaller while it still shows its difference.

use crate::tree::{Case, Tree, expression};

/// No more tries than this for one case.
const MAX_TRIES: usize = 300;

/// The smallest case found for which `differs` still holds.
pub fn shrink(case: &Case, mut differs: impl FnMut(&Case) -> bool) -> Case {
    let mut best = case.clone();
    let mut n_tries = 0;
    loop {
        let mut improved = false;
        for file in (0..best.files.len()).rev() {
            let is_needed = matches!(best.files[file].0.as_str(), "main.cf" | "project.yml");
            if !is_needed {
                let mut smaller = best.clone();
                smaller.files.remove(file);
                n_tries += 1;
                if differs(&smaller) {
                    best = smaller;
                    improved = true;
                    continue;
                }
            }
            let mut paths = Vec::new();
            collect(&best.files[file].1, &mut Vec::new(), &mut paths);
            for path in paths {
                // An earlier change may have taken the node away.
                let Some(candidates) = at(&best.files[file].1, &path).map(candidates) else {
                    continue;
                };
                for candidate in candidates {
                    if n_tries > MAX_TRIES {
                        return best;
                    }
                    let mut smaller = best.clone();
                    replace(&mut smaller.files[file].1, &path, candidate);
                    if smaller.files[file].1.render() == best.files[file].1.render() {
                        continue;
                    }
                    n_tries += 1;
                    if differs(&smaller) {
                        best = smaller;
                        improved = true;
                        break;
                    }
                }
            }
        }
        if !improved {
            return best;
        }
    }
}

/// The paths of all nodes with children, the outer ones first.
fn collect(tree: &Tree, path: &mut Vec<usize>, paths: &mut Vec<Vec<usize>>) {
    if matches!(tree, Tree::Text(_)) {
        return;
    }
    paths.push(path.clone());
    for (index, child) in tree.children().iter().enumerate() {
        path.push(index);
        collect(child, path, paths);
        path.pop();
    }
}

fn at<'a>(tree: &'a Tree, path: &[usize]) -> Option<&'a Tree> {
    path.iter()
        .try_fold(tree, |tree, index| tree.children().get(*index))
}

fn replace(tree: &mut Tree, path: &[usize], by: Tree) {
    match path {
        [] => *tree = by,
        [first, rest @ ..] => replace(&mut tree.children_mut()[*first], rest, by),
    }
}

/// Simpler forms of a node, the simplest first.
fn candidates(tree: &Tree) -> Vec<Tree> {
    let mut found = Vec::new();
    match tree {
        Tree::Items { items, separator } => {
            for rest in fewer(items) {
                found.push(Tree::Items {
                    separator,
                    items: rest,
                });
            }
            // A statement gives way to the statements inside of it.
            if *separator == "\n" {
                for rest in hoisted(items) {
                    found.push(Tree::Items {
                        separator,
                        items: rest,
                    });
                }
            }
        }
        Tree::Block(statements) => {
            found.extend(fewer(statements).into_iter().map(Tree::Block));
            found.extend(hoisted(statements).into_iter().map(Tree::Block));
        }
        Tree::Expression(_) => {
            let mut inner = Vec::new();
            tree.nearest(&|tree| matches!(tree, Tree::Expression(_)), &mut inner);
            let length = tree.render().len();
            for literal in ["1", "true", "\"a\"", "[]", "null"] {
                if literal.len() < length {
                    found.push(expression(literal));
                }
            }
            found.extend(inner);
        }
        Tree::Parts(_) | Tree::Text(_) => (),
    }
    found
}

/// Without all, without halves, quarters and so on, down to single items.
fn fewer(items: &[Tree]) -> Vec<Vec<Tree>> {
    let mut found = Vec::new();
    let mut size = items.len();
    while size > 0 {
        for start in (0..items.len()).step_by(size) {
            let end = (start + size).min(items.len());
            let mut rest = items[..start].to_vec();
            rest.extend_from_slice(&items[end..]);
            found.push(rest);
        }
        size /= 2;
    }
    found
}

fn hoisted(items: &[Tree]) -> Vec<Vec<Tree>> {
    let mut found = Vec::new();
    for (at, item) in items.iter().enumerate() {
        let mut blocks = Vec::new();
        item.nearest(&|tree| matches!(tree, Tree::Block(_)), &mut blocks);
        for block in blocks {
            let mut rest = items[..at].to_vec();
            rest.extend_from_slice(block.children());
            rest.extend_from_slice(&items[at + 1..]);
            found.push(rest);
        }
    }
    found
}
