//! A source text that knows its structure, so that parts of it can be taken away and the rest still is a source text.

/// A piece of a model.
#[derive(Debug, Clone, PartialEq)]
pub enum Tree {
    Text(String),
    /// One after the other, all of them needed.
    Parts(Vec<Tree>),
    /// May be replaced by an expression inside of it, or by a literal.
    Expression(Vec<Tree>),
    /// Each may be left out.
    Items {
        separator: &'static str,
        items: Vec<Tree>,
    },
    /// Statements on lines of their own, indented, each of which may be left out.
    Block(Vec<Tree>),
}

/// One model: the files of a project.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    pub files: Vec<(String, Tree)>,
    /// Whether its resources are built, too.
    pub export: bool,
}

/// The `project.yml` of a case that has nothing to say in it.
const PROJECT: &str = "name: case\nmodulepath: libs\n";

/// What every case finds in its environment.
pub const VARIABLES: &[(&str, &str)] = &[("STEWARD_TEXT", "text"), ("STEWARD_NUMBER", "42")];

pub fn text(text: impl Into<String>) -> Tree {
    Tree::Text(text.into())
}

pub fn expression(expression: impl Into<String>) -> Tree {
    Tree::Expression(vec![text(expression)])
}

pub fn comma(items: Vec<Tree>) -> Tree {
    Tree::Items {
        separator: ", ",
        items,
    }
}

/// `parts!["a = ", value, "\n"]`
#[macro_export]
macro_rules! parts {
    ($($part:expr),* $(,)?) => { $crate::tree::Tree::Parts(vec![$($crate::tree::Tree::from($part)),*]) };
}

/// Like `parts!`, of an expression.
#[macro_export]
macro_rules! expr {
    ($($part:expr),* $(,)?) => { $crate::tree::Tree::Expression(vec![$($crate::tree::Tree::from($part)),*]) };
}

impl From<&str> for Tree {
    fn from(text: &str) -> Self {
        Tree::Text(text.to_owned())
    }
}

impl From<String> for Tree {
    fn from(text: String) -> Self {
        Tree::Text(text)
    }
}

impl Tree {
    pub fn render(&self) -> String {
        let mut out = String::new();
        self.render_into(&mut out, 0);
        out
    }

    fn render_into(&self, out: &mut String, indent: usize) {
        match self {
            Tree::Text(text) => out.push_str(text),
            Tree::Parts(parts) | Tree::Expression(parts) => {
                for part in parts {
                    part.render_into(out, indent);
                }
            }
            Tree::Items { separator, items } => {
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        out.push_str(separator);
                    }
                    item.render_into(out, indent);
                }
            }
            Tree::Block(statements) => {
                for statement in statements {
                    out.push('\n');
                    out.extend(std::iter::repeat_n("    ", indent + 1));
                    statement.render_into(out, indent + 1);
                }
                out.push('\n');
                out.extend(std::iter::repeat_n("    ", indent));
            }
        }
    }

    pub fn children(&self) -> &[Tree] {
        match self {
            Tree::Text(_) => &[],
            Tree::Parts(parts) | Tree::Expression(parts) => parts,
            Tree::Items { items, .. } => items,
            Tree::Block(statements) => statements,
        }
    }

    pub fn children_mut(&mut self) -> &mut Vec<Tree> {
        match self {
            Tree::Parts(parts) | Tree::Expression(parts) => parts,
            Tree::Items { items, .. } => items,
            Tree::Block(statements) => statements,
            Tree::Text(_) => unreachable!("a text has no children"),
        }
    }

    /// With the items of lists on lines of their own.
    pub fn broken_up(mut self) -> Tree {
        match &mut self {
            Tree::Text(_) => return self,
            Tree::Items { separator, .. } if *separator == ", " => *separator = ",\n        ",
            _ => (),
        }
        let children = std::mem::take(self.children_mut());
        *self.children_mut() = children.into_iter().map(Tree::broken_up).collect();
        self
    }

    /// The nearest nodes below that fulfil the condition.
    pub fn nearest(&self, wanted: &dyn Fn(&Tree) -> bool, found: &mut Vec<Tree>) {
        for child in self.children() {
            if wanted(child) {
                found.push(child.clone());
            } else {
                child.nearest(wanted, found);
            }
        }
    }
}

impl Case {
    pub fn new(main: Tree) -> Self {
        Case {
            files: vec![
                ("project.yml".to_owned(), text(PROJECT)),
                ("main.cf".to_owned(), main),
            ],
            export: false,
        }
    }

    /// The other way round of [`Case::listing`]; a model that exports says so in a first line `# export`.
    pub fn from_listing(listing: &str) -> Self {
        let mut main = String::new();
        let mut other: Option<(String, String)> = None;
        let mut files = Vec::new();
        for line in listing.lines() {
            match (other.take(), line.strip_prefix("--- ")) {
                (Some((path, content)), Some("end")) => files.push((path, text(content))),
                (Some((path, content)), _) => other = Some((path, content + line + "\n")),
                (None, Some(path)) => other = Some((path.to_owned(), String::new())),
                (None, None) => main.push_str(&format!("{line}\n")),
            }
        }
        let export = main.starts_with("# export\n");
        let mut case = Case::new(text(main));
        for (path, content) in files {
            case.files.retain(|(known, _)| *known != path);
            case.files.push((path, content));
        }
        case.export = export;
        case
    }

    pub fn rendered(&self) -> Vec<(String, String)> {
        let files = self.files.iter();
        files
            .map(|(path, tree)| (path.clone(), tree.render()))
            .collect()
    }

    /// All files in one text, for people.
    pub fn listing(&self) -> String {
        let mut listing = String::new();
        for (path, text) in self.rendered() {
            if path == "main.cf" {
                listing.push_str(text.trim_end());
                listing.push('\n');
            } else if path != "project.yml" || text != PROJECT {
                listing.push_str(&format!("--- {path}\n{}\n--- end\n", text.trim_end()));
            }
        }
        listing
    }
}
