//! Large models run in tiles (`runtime/speed/tiling.rs`); what they give must not depend on it. The models here are made of
//! services that share hosts, look one another up, fill relations of one another and wait for them.

use std::fmt::Write as _;

use steward_compiler::{Compiled, MemWorld, Options, Tiling, compile};

/// No round is so large.
const NONE: Tiling = Tiling {
    tile: usize::MAX,
    large: usize::MAX,
    early: 0,
};

const ENTITIES: &str = r#"
import std::testing

entity Host:
    string name
    int n_services = 0
end
index Host(name)
implement Host using std::none
implement Host using popular when self.is_popular

entity Service:
    string name
    int size
    bool large = false
end
index Service(name)
Host.is_popular [1] -- Host
Service.host [1] -- Host.services [0:]
Service.parts [0:] -- Part.service [1]
Service.first [0:1] -- Part.head [0:1]
Service.friends [0:] -- Service.fans [0:]
Service.summary [0:1] -- Summary.service [1]

entity Part:
    string name
    int depth
    string? label = null
end
index Part(service, depth)
Part.next [0:1] -- Part.previous [0:1]
Part.resources [0:] -- std::testing::NullResource

entity Thing:
    string name
end
Host.things [0:] -- Thing.host [1]
Host.favourite [0:1] -- Part
index Thing(name)
implement Thing using std::none

entity Summary:
    string text
end
implement Summary using std::none
"#;

/// Numbers below an end, always the same ones.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// What an implementation of a service or a part may do: some keep to themselves, others do not.
const OF_SERVICE: [&str; 11] = [
    "self.first = Part(service=self, depth=0, name=\"{{ self.name }}-0\")",
    "for number in [1, 2, 3]:\n        self.parts += Part(service=self, depth=10 + number, name=\"{{ self.name }}-{{ number }}\")\n    end",
    "last = Part[service=self, depth=2]\n    self.summary = Summary(text=\"{{ last.name }} {{ std::count(self.parts) }}\")",
    "names = [part.name for part in self.parts if part.depth > 0]\n    n_names = std::count(names)\n    r = std::testing::NullResource(agentname=self.host.name, name=\"names-{{ self.name }}\", value=\"{{ n_names }}\")",
    "if self.size > 3:\n        r2 = std::testing::NullResource(agentname=self.host.name, name=\"large-{{ self.name }}\", int_value=self.size)\n    else:\n        r2 = std::testing::NullResource(agentname=self.host.name, name=\"small-{{ self.name }}\")\n    end",
    "for friend in self.friends:\n        f = std::testing::NullResource(agentname=friend.host.name, name=\"{{ self.name }}-likes-{{ friend.name }}\")\n    end",
    "n_fans = std::count(self.fans)\n    r3 = std::testing::NullResource(agentname=\"fans\", name=\"fans-{{ self.name }}\", value=\"{{ n_fans }}\")",
    "self.friends += Service[name=\"service0\"]",
    "shared = std::testing::NullResource(agentname=self.host.name, name=\"{{ self.name }} on {{ self.host.name }} {{ self.host.n_services }}\")",
    "kind = self.large ? \"large\" : \"small\"\n    r4 = std::testing::NullResource(agentname=\"kinds\", name=\"{{ kind }}-{{ self.name }}\")",
    "if self.first is defined:\n        r5 = std::testing::NullResource(agentname=self.host.name, name=\"first-{{ self.name }}-{{ self.first.depth }}\")\n    end",
];

const OF_PART: [&str; 7] = [
    "thing = Thing(host=self.service.host, name=\"thing of {{ self.name }} {{ self.depth }}\")",
    "common = Thing(host=self.service.host, name=\"{{ self.service.host.name }}, depth {{ self.depth }}\")",
    "own = std::testing::NullResource(agentname=self.service.host.name, name=\"part-{{ self.name }}-{{ self.depth }}\", value=\"{{ self.depth }}\")\n    self.resources += own",
    "if self.previous is defined:\n        self.resources += self.previous.resources\n    end",
    "p = std::testing::NullResource(agentname=\"parts\", name=\"{{ self.service.name }}/{{ self.name }}/{{ self.depth }}\", requires=self.resources)",
    "n = std::count(self.service.parts)\n    q = std::testing::NullResource(agentname=\"parts\", name=\"{{ n }} parts, {{ self.name }} {{ self.depth }}\")",
    "self.service.host.services += self.service",
];

/// A model and a name for what it is about.
fn model(seed: u64) -> String {
    let mut dice = Dice(seed);
    let mut text = ENTITIES.replace(
        "implement Host using popular when self.is_popular\n",
        if dice.chance(30) {
            "implement Host using popular when std::count(self.services) > 4\n"
        } else {
            ""
        },
    );
    text = text.replace("Host.is_popular [1] -- Host\n", "");
    text.push_str(
        "implementation popular for Host:\n    r = std::testing::NullResource(agentname=self.name, name=\"popular\")\nend\n",
    );
    for (entity, all) in [("Service", &OF_SERVICE[..]), ("Part", &OF_PART[..])] {
        let name = entity.to_lowercase();
        let _ = writeln!(text, "implementation {name} for {entity}:");
        for (at, statement) in all.iter().enumerate() {
            // Whoever looks further than its service needs the first part.
            if dice.chance(40) || entity == "Service" && at == 0 {
                let _ = writeln!(text, "    {statement}");
            }
        }
        let _ = writeln!(text, "    noise = 1\nend");
        let condition = [
            "",
            " when self.name != \"none\"",
            " when self.host is defined",
        ];
        let n_conditions = if entity == "Service" { 3 } else { 2 };
        let condition = condition[dice.below(n_conditions) as usize];
        let _ = writeln!(text, "implement {entity} using {name}{condition}");
    }
    text.push_str(
        "implementation grow for Part:\n    below = self.depth + 1\n    self.next = Part(service=self.service, depth=below, name=\"{{ self.service.name }}-{{ below }}\")\nend\nimplement Part using grow when self.depth < 2\n",
    );
    let n_services = 3 + dice.below(10);
    let n_hosts = 1 + dice.below(4);
    let by_loop = dice.chance(25);
    for host in 0..n_hosts {
        let _ = writeln!(text, "h{host} = Host(name=\"host{host}\")");
        // In which order relations are filled shows in the text.
        let _ = writeln!(
            text,
            "things{host} = [\"{{{{ t.name }}}}\" for t in h{host}.things]\nservices{host} = [s.name for s in h{host}.services]\norder{host} = std::testing::NullResource(agentname=\"order\", name=\"{host}\", value=\"{{{{ things{host} }}}} {{{{ services{host} }}}}\")"
        );
        if !by_loop {
            let _ = writeln!(
                text,
                "h{host}.favourite = Part[service=s{}, depth={}]",
                dice.below(n_services),
                dice.below(3)
            );
        }
    }
    if by_loop {
        let _ = writeln!(
            text,
            "for i in std::sequence({n_services}):\n    s = Service(name=\"service{{{{ i }}}}\", size=i, host=h0)\nend"
        );
    }
    for service in 0..if by_loop { 0 } else { n_services } {
        let host = match dice.below(3) {
            0 => format!("Host[name=\"host{}\"]", dice.below(n_hosts)),
            1 => format!("h{}", dice.below(n_hosts)),
            _ => format!("Host(name=\"host{}\")", dice.below(n_hosts)),
        };
        let _ = writeln!(
            text,
            "s{service} = Service(name=\"service{service}\", size={service}, host={host}, large={})",
            dice.chance(50)
        );
        if dice.chance(20) && service > 0 {
            let _ = writeln!(text, "s{service}.friends += s{}", dice.below(service));
        }
        if dice.chance(20) {
            let (a, b) = (dice.below(n_services), dice.below(n_services));
            let _ = writeln!(
                text,
                "x{service} = Thing(host=s{a}.first.service.host, name=\"{service}: {{{{ s{a}.first.name }}}} {{{{ s{b}.first.next.next.name }}}}\")"
            );
        }
        if dice.chance(10) {
            let (a, b) = (dice.below(n_hosts), dice.below(n_services));
            let _ = writeln!(
                text,
                "y{service} = Thing(host=h{a}, name=\"{service}: {{{{ h{a}.favourite.name }}}} {{{{ s{b}.first.next.next.name }}}}\")"
            );
        }
        if dice.chance(10) {
            let _ = writeln!(
                text,
                "s{service}.friends += Service[name=\"service{}\"]",
                dice.below(n_services)
            );
        }
    }
    text
}

const DEEP: &str = r#"
import std::testing

entity Box:
    string name
end
index Box(name)
implement Box using std::none
Box.items [0:] -- Item.box [1]

entity Item:
    string name
end
index Item(name)
implement Item using std::none

entity User:
    string name
    int depth
    string wants
    string box
end
User.next [0:1] -- User.previous [0:1]
User.finish [0:1] -- End.of [0:]
User.own [0:] -- Item

entity End:
    string name
end
implement End using std::none

implementation further for User:
    self.next = User(name=self.name, depth=self.depth - 1, wants=self.wants, box=self.box)
    self.finish = self.next.finish
end
implement User using further when self.depth > 0
implement User using last, std::none when self.depth == 0
"#;

/// What the last of a chain of users does, when those of others are not so far, or further.
const OF_LAST: [&str; 5] = [
    "self.finish = End(name=\"end of {{ self.name }}\")",
    "found = Box[name=self.wants]\n    found.items += Item(box=found, name=\"{{ self.name }} found it\")",
    "n = std::count(self.own)\n    counted = Item(box=Box[name=self.box], name=\"{{ self.name }} has {{ n }}\")",
    "made = Box(name=\"made by {{ self.name }}\")",
    "seen = Item(box=Box[name=self.box], name=\"{{ self.name }} was here\")",
];

/// Chains of different lengths that meet: whoever runs a whole chain at once comes too early or too late.
fn deep_model(seed: u64) -> String {
    let mut dice = Dice(seed);
    let mut text = DEEP.to_owned();
    text.push_str("implementation last for User:\n");
    for (at, statement) in OF_LAST.iter().enumerate() {
        if at == 0 || dice.chance(45) {
            let _ = writeln!(text, "    {statement}");
        }
    }
    text.push_str("    noise = 1\nend\n");
    let makes_boxes = text.contains("made = Box");
    // The order of their items shows in the dump; who reads it waits for it.
    let is_read = dice.chance(40);
    for at in 0..3 {
        let _ = writeln!(text, "b{at} = Box(name=\"b{at}\")");
        if is_read {
            let _ = writeln!(
                text,
                "names{at} = [item.name for item in b{at}.items]\nr{at} = std::testing::NullResource(agentname=\"order\", name=\"{at}\", value=\"{{{{ names{at} }}}}\")"
            );
        }
    }
    let n_users = 2 + dice.below(4);
    for user in 0..n_users {
        let wants = match dice.below(3) {
            1.. if makes_boxes => format!("made by u{}", dice.below(n_users)),
            _ => format!("b{}", dice.below(3)),
        };
        let (depth, own) = (dice.below(6), dice.below(3));
        let _ = writeln!(
            text,
            "u{user} = User(name=\"u{user}\", depth={depth}, wants=\"{wants}\", box=\"b{own}\")"
        );
        if dice.chance(30) {
            let (a, b) = (dice.below(n_users), dice.below(n_users));
            let _ = writeln!(
                text,
                "i{user} = Item(box=b{}, name=\"{user}: {{{{ u{a}.finish.name }}}}, {{{{ u{b}.finish.name }}}}\")",
                dice.below(3)
            );
        }
    }
    text
}

fn run(text: &str, tiling: Tiling) -> (String, bool) {
    let world = MemWorld::default()
        .file("project.yml", "name: tiles\nmodulepath: libs\n")
        .file("main.cf", text);
    let options = Options {
        export: true,
        dump_model: true,
        tiling,
        ..Options::default()
    };
    let compiled = compile(&world, &options);
    let Compiled {
        diagnostics,
        export,
        model,
        ran_in_tiles,
        ..
    } = compiled;
    (
        format!(
            "{diagnostics:#?}\n{export:#?}\n{}",
            model.unwrap_or_default()
        ),
        ran_in_tiles,
    )
}

#[test]
fn a_model_gives_the_same_in_tiles_and_without() {
    let (mut n_tiled, mut n_left, mut n_accepted) = (0, 0, 0);
    let n_seeds = match std::env::var("TILES_SEEDS") {
        Ok(text) => text.parse().expect("a number of seeds"),
        Err(_) => 150,
    };
    let models = (0..n_seeds).map(|seed| (seed, model(seed)));
    let deep_models = (0..2 * n_seeds).map(|seed| (seed, deep_model(seed)));
    for (seed, text) in models.chain(deep_models) {
        let (plain, _) = run(&text, NONE);
        n_accepted += usize::from(plain.starts_with("[]"));
        for (tile, large) in [(1, 1), (2, 2), (5, 4), (3, 8)] {
            let tiling = Tiling {
                tile,
                large,
                early: usize::MAX,
            };
            let (found, ran_in_tiles) = run(&text, tiling);
            assert!(found == plain, "seed {seed}, {tiling:?}:\n{text}");
            if ran_in_tiles {
                n_tiled += 1;
            } else {
                n_left += 1;
            }
        }
    }
    println!("{n_accepted} models, {n_tiled} runs in tiles, {n_left} not");
    // Else nothing was compared.
    assert!(n_tiled > n_left / 4 && n_accepted > n_seeds as usize);
}
