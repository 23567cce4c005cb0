//! Projects of any size, of four kinds, that Steward and the reference both compile.
//!
//! Every service becomes ten resources: in the first two kinds of `std::testing::NullResource`, the one that both know
//! without any Python; in the other two, about ten of the classes of a module that is written as people write modules.

use std::fmt::Write;
use std::path::Path;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Refinement, relations, an index, strings, a loop, a comprehension, conditions, defaults, inheritance, requires.
    Refine,
    /// Values that are waited for: chains of refinement, relations filled from many places, `is defined`, look-ups.
    Wait,
    /// Virtual private networks of customers between ports of devices: a module with resource classes in Python, whose
    /// fields are plain, and handlers. Nothing of Python runs for a service.
    Service,
    /// The same with six calls of plugins for each service: of texts, of lists, and of instances whose attributes and
    /// relations the plugin reads.
    Plugins,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Refine, Kind::Wait, Kind::Service, Kind::Plugins];

    pub fn name(self) -> &'static str {
        match self {
            Kind::Refine => "refine",
            Kind::Wait => "wait",
            Kind::Service => "service",
            Kind::Plugins => "plugins",
        }
    }
}

/// Services a host, so that relations of hosts stay short as the model grows.
pub const SERVICES_A_HOST: usize = 20;

/// Writes a project of `n` services.
pub fn project(kind: Kind, n: usize, directory: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(directory)?;
    std::fs::write(
        directory.join("project.yml"),
        "name: bench\nmodulepath: libs\n",
    )?;
    std::fs::create_dir_all(directory.join("libs"))?;
    let text = match kind {
        Kind::Refine | Kind::Wait => in_one_file(kind, n),
        Kind::Service | Kind::Plugins => {
            module(kind, &directory.join("libs/vpn"))?;
            connections(n)
        }
    };
    std::fs::write(directory.join("main.cf"), text)
}

fn in_one_file(kind: Kind, n: usize) -> String {
    let mut text = match kind {
        Kind::Wait => WAIT.to_owned(),
        _ => REFINE.to_owned(),
    };
    for host in 0..n.div_ceil(SERVICES_A_HOST) {
        let _ = writeln!(text, "h{host} = Host(name=\"host{host}\")");
    }
    for service in 0..n {
        let host = service / SERVICES_A_HOST;
        let size = service % 7;
        let _ = match kind {
            Kind::Wait => writeln!(
                text,
                "Chain(name=\"service{service}\", host=Host[name=\"host{host}\"], size={size})"
            ),
            _ => writeln!(
                text,
                "Service(name=\"service{service}\", host=h{host}, size={size}, tags=[\"t{size}\", \"all\"])"
            ),
        };
    }
    text
}

/// Writes the module of virtual private networks.
fn module(kind: Kind, directory: &Path) -> std::io::Result<()> {
    for part in ["model", "plugins"] {
        std::fs::create_dir_all(directory.join(part))?;
    }
    let about = "name: vpn\nversion: 1.0.0\nlicense: Apache-2.0\n";
    std::fs::write(directory.join("module.yml"), about)?;
    let mut model = include_str!("vpn/service.cf").to_owned();
    model += match kind {
        Kind::Plugins => include_str!("vpn/calls.cf"),
        _ => include_str!("vpn/plain.cf"),
    };
    std::fs::write(directory.join("model/_init.cf"), model)?;
    let functions = match kind {
        Kind::Plugins => include_str!("vpn/calls.py"),
        _ => "",
    };
    std::fs::write(directory.join("plugins/__init__.py"), functions)?;
    let resources = include_str!("vpn/resources.py");
    std::fs::write(directory.join("plugins/resources.py"), resources)
}

/// Connections that a customer has, and ports that a device has for them.
pub const CONNECTIONS_A_CUSTOMER: usize = 8;
const PORTS_A_DEVICE: usize = 48;

/// Bandwidths of one connection after the other.
pub const BANDWIDTHS: [usize; 5] = [50, 100, 200, 500, 1000];

/// Devices for `n` connections.
pub fn n_devices(n: usize) -> usize {
    (2 * n).div_ceil(PORTS_A_DEVICE).max(2)
}

fn connections(n: usize) -> String {
    let mut text = "import vpn\n\n".to_owned();
    let n_devices = n_devices(n);
    for device in 0..n_devices {
        let vendor = match device % 3 {
            0 => ", vendor=\"other\"",
            _ => "",
        };
        let address = format!("10.255.{}.{}", device / 250, device % 250 + 1);
        let _ = writeln!(
            text,
            "vpn::Device(name=\"r{device}\", management_address=\"{address}\"{vendor})"
        );
    }
    for customer in 0..n.div_ceil(CONNECTIONS_A_CUSTOMER) {
        let is_monitored = customer.is_multiple_of(3);
        let nearest = customer % n_devices;
        let _ = writeln!(
            text,
            "vpn::Customer(name=\"Customer {customer}\", as_number={}, is_monitored={is_monitored}, nearest=vpn::Device[name=\"r{nearest}\"])",
            64512 + customer
        );
    }
    for connection in 0..n {
        let ends =
            [2 * connection, 2 * connection + 1].map(|end| end_of(end, n_devices, &mut text));
        let bandwidth = BANDWIDTHS[connection % BANDWIDTHS.len()];
        let _ = writeln!(
            text,
            "vpn::Connection(\n    name=\"vpn-{connection}\",\n    number={connection},\n    bandwidth={bandwidth},\n    \
             is_encrypted={},\n    customer=vpn::Customer[name=\"Customer {}\"],\n    endpoints=[{}],\n)",
            connection.is_multiple_of(7),
            connection / CONNECTIONS_A_CUSTOMER,
            ends.join(", "),
        );
    }
    text
}

/// Writes an endpoint, and gives the expression that finds it.
fn end_of(end: usize, n_devices: usize, text: &mut String) -> String {
    let (device, port) = (end % n_devices, end / n_devices);
    let description = match end % 4 {
        0 => format!(", description=\"rack {port}\""),
        _ => String::new(),
    };
    let (high, low) = (end / 60, 4 * (end % 60));
    let network = format!("10.{}.{}", high / 256, high % 256);
    let device = format!("vpn::Device[name=\"r{device}\"]");
    let _ = writeln!(
        text,
        "vpn::Endpoint(device={device}, port=\"ge-0/0/{port}\", vlan={}, address=\"{network}.{}\", neighbour=\"{network}.{}\"{description})",
        1 + port % 4000,
        low + 1,
        low + 2,
    );
    format!("vpn::Endpoint[device={device}, port=\"ge-0/0/{port}\"]")
}

const REFINE: &str = r#"
import std::testing

typedef size_t as int matching self >= 0 and self < 1000

entity Named:
    string name
    string owner = "ops"
    bool enabled = true
end

entity Host extends Named:
end
index Host(name)

entity Service extends Named:
    size_t size
    string[] tags
    string note
end
Service.host [1] -- Host.services [0:]
index Service(name)

entity Part extends Named:
    int number
    int weight = 3
end
Service.parts [0:] -- Part.service [1]
index Part(service, number)

implementation service for Service:
    for number in std::sequence(4):
        self.parts += Part(service=self, number=number, name="{{ self.name }}-{{ number }}")
    end
    names = [part.name for part in self.parts if part.number > 1]
    n_names = std::count(names)
    n_tags = std::count(self.tags)
    config = std::testing::NullResource(
        agentname=self.host.name,
        name="config-{{ self.name }}",
        value="names={{ n_names }} tags={{ n_tags }} owner={{ owner }}",
    )
    monitor = std::testing::NullResource(
        agentname=self.host.name,
        name="monitor-{{ self.name }}",
        value=self.size > 3 ? "large" : "small",
        int_value=self.size * 10,
        requires=config,
    )
end

implementation large for Service:
    self.note = f"large service {self.name}"
end

implementation small for Service:
    self.note = f"small service {self.name}"
end

implementation part for Part:
    data = std::testing::NullResource(
        agentname=self.service.host.name,
        name="data-{{ self.name }}",
        value="weight {{ self.weight }} of {{ self.service.name }}",
        requires=std::testing::NullResource[agentname=self.service.host.name, name="config-{{ self.service.name }}"],
    )
    if self.number > 2:
        run = std::testing::NullResource(agentname=self.service.host.name, name="run-{{ self.name }}", int_value=self.number)
        run.requires = data
    else:
        run = std::testing::NullResource(agentname=self.service.host.name, name="run-{{ self.name }}", send_event=false)
        run.requires += data
    end
end

implement Host using std::none
implement Service using service when self.enabled
implement Service using large when self.size > 3
implement Service using small when not (self.size > 3)
implement Part using part
"#;

const WAIT: &str = r#"
import std::testing

entity Host:
    string name
end
index Host(name)
implement Host using std::none

entity Chain:
    string name
    int size
end
Chain.host [1] -- Host.chains [0:]
Chain.first [0:1] -- Step.head [0:1]
Chain.ports [0:] -- Port.chain [1]
Chain.all_steps [0:] -- Step.chain [1]
Chain.summary [0:1] -- Summary.chain [1]
index Chain(name)

entity Step:
    string name
    int depth
    string? label = null
end
Step.next [0:1] -- Step.previous [0:1]
Step.port [0:1] -- Port.step [0:1]
Step.resources [0:] -- std::testing::NullResource
index Step(chain, depth)

entity Port:
    int number
    string label
end
index Port(chain, number)
implement Port using std::none

entity Summary:
    int count
    string text
end
implement Summary using summary

implementation chain for Chain:
    self.first = Step(chain=self, depth=0, name="{{ self.name }}-0")
    last = Step[chain=self, depth=3]
    wanted = Port[chain=self, number=self.size + 2]
    self.summary = Summary(count=std::count(self.ports), text="{{ last.name }} {{ wanted.label }}")
end

implementation grow for Step:
    below = self.depth + 1
    self.next = Step(chain=self.chain, depth=below, name="{{ self.chain.name }}-{{ below }}")
end

implementation step for Step:
    self.chain.ports += Port(number=self.chain.size + self.depth, label="{{ self.name }}:{{ self.depth }}")
    self.port = Port[chain=self.chain, number=self.chain.size + self.depth]
    own = std::testing::NullResource(
        agentname=self.chain.host.name,
        name="step-{{ self.name }}",
        value=self.port.label,
    )
    self.resources += own
    if self.previous is defined:
        own.requires += self.previous.resources
    end
    n_ports = std::count(self.chain.ports)
    extra = std::testing::NullResource(
        agentname=self.chain.host.name,
        name="extra-{{ self.name }}",
        value="of {{ n_ports }}",
    )
    self.chain.summary.resources += extra
end

Summary.resources [0:] -- std::testing::NullResource.summary [0:1]

implementation tail for Step:
    end_of_chain = std::testing::NullResource(
        agentname=self.chain.host.name,
        name="end-{{ self.name }}",
        value=self.next is defined ? "open" : "closed",
    )
end

implementation summary for Summary:
    total = std::testing::NullResource(
        agentname=self.chain.host.name,
        name="summary-{{ self.chain.name }}",
        value="{{ self.count }} {{ self.text }}",
        int_value=std::count([r.name for r in self.resources if r.send_event]),
        requires=self.resources,
    )
end

implement Chain using chain
implement Step using step
implement Step using grow when self.depth < 3
implement Step using tail when self.depth == 3
"#;
