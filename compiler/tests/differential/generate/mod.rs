//! Random models. Each kind has a focus of its own: what it has many of, what it leaves out.

mod clashes;
mod constraints;
mod dataclass_types;
mod dataclasses;
mod instances;
mod metadata;
mod modules;
mod plugins;
mod resources;
mod schema;
mod statements;
mod texts;
mod tokens;
mod values;

use crate::random::Random;
use crate::tree::{Case, Tree};

use schema::{Schema, Type};

pub use tokens::Seeds;

/// The kinds of model and their share of a run.
pub const KINDS: &[(&str, usize)] = &[
    ("values", 14),
    ("relations", 22),
    ("entities", 14),
    ("indexes", 10),
    ("unknowns", 8),
    ("resources", 8),
    ("modules", 6),
    ("syntax", 6),
    ("fixtures", 12),
    ("dataclasses", 12),
    ("constraints", 20),
    ("metadata", 20),
    ("clashes", 12),
];

/// What a kind of model has, and how much of it.
#[derive(Clone)]
pub struct Focus {
    /// Of a hundred places where a mistake may be, how many have one.
    mistakes: usize,
    unknowns: usize,
    typedefs: usize,
    entities: (usize, usize),
    attributes: usize,
    inheritance: usize,
    relations: (usize, usize),
    inverses: usize,
    /// `[0:] [0:1] [1] [1:] [0:2] [2:n]`
    multiplicities: [usize; 6],
    indexes: usize,
    instances: (usize, usize),
    values: usize,
    statements: (usize, usize),
    assignments: usize,
    ifs: usize,
    fors: usize,
    prints: usize,
    /// Weights of none, one, two an entity.
    implementations: [usize; 3],
    plugins: bool,
    /// Of a hundred models, how many have precedence rules.
    policy: usize,
}

const VALUES: Focus = Focus {
    mistakes: 1,
    unknowns: 0,
    typedefs: 0,
    entities: (0, 0),
    attributes: 0,
    inheritance: 0,
    relations: (0, 0),
    inverses: 0,
    multiplicities: [1, 0, 0, 0, 0, 0],
    indexes: 0,
    instances: (0, 0),
    values: 8,
    statements: (1, 6),
    assignments: 0,
    ifs: 8,
    fors: 6,
    prints: 40,
    implementations: [1, 0, 0],
    plugins: true,
    policy: 0,
};

const RELATIONS: Focus = Focus {
    entities: (1, 3),
    attributes: 0,
    inheritance: 35,
    relations: (2, 5),
    inverses: 45,
    multiplicities: [60, 25, 2, 5, 5, 1],
    instances: (2, 4),
    values: 0,
    statements: (3, 10),
    assignments: 55,
    ifs: 22,
    fors: 16,
    prints: 4,
    implementations: [5, 4, 1],
    plugins: false,
    mistakes: 0,
    policy: 15,
    ..VALUES
};

const ENTITIES: Focus = Focus {
    typedefs: 3,
    entities: (2, 5),
    attributes: 4,
    inheritance: 60,
    relations: (0, 3),
    inverses: 50,
    multiplicities: [40, 20, 20, 10, 5, 5],
    instances: (1, 4),
    values: 3,
    statements: (1, 6),
    assignments: 20,
    prints: 30,
    implementations: [4, 4, 2],
    ..VALUES
};

const INDEXES: Focus = Focus {
    entities: (1, 4),
    attributes: 2,
    inheritance: 40,
    relations: (1, 4),
    inverses: 85,
    multiplicities: [40, 15, 40, 3, 1, 1],
    indexes: 3,
    instances: (2, 5),
    assignments: 25,
    mistakes: 1,
    plugins: false,
    ..ENTITIES
};

fn focus(kind: &str, random: &mut Random) -> Focus {
    let mut focus = match kind {
        "relations" => RELATIONS,
        "entities" => ENTITIES,
        "indexes" => INDEXES,
        "unknowns" => Focus {
            unknowns: 12,
            mistakes: 0,
            ..match random.below(3) {
                0 => VALUES,
                1 => RELATIONS,
                _ => ENTITIES,
            }
        },
        "syntax" => match random.below(3) {
            0 => VALUES,
            1 => INDEXES,
            _ => ENTITIES,
        },
        _ => VALUES,
    };
    // Half of the models are meant to be right: a mistake hides what comes after it.
    if random.chance(50) {
        focus.mistakes = 0;
    }
    focus
}

/// A model of a kind.
pub fn generate(kind: &str, random: &mut Random, seeds: &Seeds) -> Case {
    match kind {
        "modules" => return modules::modules(random),
        "fixtures" => return seeds.mutated(random),
        "dataclasses" => return dataclasses::dataclasses(random),
        "constraints" => return constraints::constraints(random),
        "metadata" => return metadata::metadata(random),
        "clashes" => return clashes::clashes(random),
        _ => (),
    }
    let focus = focus(kind, random);
    let mut generator = Generator {
        random,
        focus,
        schema: Schema::default(),
        n_names: 0,
    };
    match kind {
        "resources" => generator.resources(),
        "syntax" => {
            let case = generator.model();
            tokens::mutated(&case, random)
        }
        _ => generator.model(),
    }
}

struct Generator<'a> {
    random: &'a mut Random,
    focus: Focus,
    schema: Schema,
    n_names: usize,
}

/// The variables that an expression may use.
#[derive(Debug, Clone, Default)]
struct Scope {
    variables: Vec<(String, Type)>,
    /// Only entities from this one on are constructed here: implementations must come to an end.
    constructs_from: usize,
    in_loop: bool,
}

impl Scope {
    fn with(&self, name: &str, of: Type) -> Scope {
        let mut scope = self.clone();
        scope.variables.push((name.to_owned(), of));
        scope
    }
}

impl Generator<'_> {
    fn mistake(&mut self) -> bool {
        self.random.chance(self.focus.mistakes)
    }

    fn fresh(&mut self, prefix: &str) -> String {
        self.n_names += 1;
        format!("{prefix}{}", self.n_names)
    }

    fn model(&mut self) -> Case {
        let definitions = self.schema();
        let mut scope = Scope::default();
        let mut statements = self.variables(&mut scope);
        let (low, high) = self.focus.statements;
        for _ in 0..self.random.between(low, high) {
            statements.push(self.statement(&scope, 0));
        }
        statements.extend(self.implementations());
        if self.random.chance(50) {
            self.random.shuffle(&mut statements);
        }
        statements.extend(self.summary(&scope));
        // Definitions may come after their use.
        let mut lines = definitions;
        let at = if self.random.chance(10) {
            0
        } else {
            lines.len()
        };
        lines.splice(at..at, statements);
        let mut tree = lines_of(lines);
        if self.random.chance(30) {
            tree = tree.broken_up();
        }
        let mut case = Case::new(tree);
        if self.random.chance(self.focus.policy) {
            self.policy(&mut case);
        }
        case
    }

    /// One precedence rule: the choice among several that are incomparable is free.
    fn policy(&mut self, case: &mut Case) {
        if self.schema.ends.len() < 2 {
            return;
        }
        let first = self.random.pick(&self.schema.ends).clone();
        let then = self.random.pick(&self.schema.ends).clone();
        let name = |end: &schema::End| {
            format!(
                "__config__::{}.{}",
                self.schema.entities[end.owner].name, end.name
            )
        };
        let rule = format!("{} before {}", name(&first), name(&then));
        let text =
            format!("name: case\nmodulepath: libs\nrelation_precedence_policy:\n  - \"{rule}\"\n");
        case.files[0].1 = Tree::Text(text);
    }
}

fn lines_of(items: Vec<Tree>) -> Tree {
    Tree::Items {
        separator: "\n",
        items,
    }
}
