//! `steward::Package` and `std::Package`: a package of the operating system.

use serde_json::{Value, json};

use super::{Attributes, Context, Error, Handler, change, differences, dnf, dpkg, flag, given};
use super::{program, text};

/// What the model wants of a package.
#[derive(Debug)]
pub(super) struct Wanted<'a> {
    pub name: &'a str,
    pub version: Option<&'a str>,
    pub latest: bool,
    pub recommends: bool,
    pub update_cache: bool,
    pub remove_config: bool,
}

/// What a host has of a package.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    Nothing,
    /// It was removed, and left its configuration.
    OnlyConfiguration,
    /// An installation was interrupted, in this state.
    Broken(String),
    /// With this version.
    Installed(String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Manager {
    Apt,
    Dnf,
}

impl Manager {
    fn of(desired: &Attributes) -> Result<Self, Error> {
        match text(desired, "provider") {
            "apt" => Ok(Self::Apt),
            "dnf" => Ok(Self::Dnf),
            "" | "auto" if program::has("dpkg") => Ok(Self::Apt),
            "" | "auto" if program::has("rpm") => Ok(Self::Dnf),
            "" | "auto" => Err(Error::Failed(
                "this host has neither dpkg nor rpm: its packages can not be managed".to_owned(),
            )),
            other => Err(Error::Failed(format!(
                "`provider` {other} is not known: write apt, dnf or auto"
            ))),
        }
    }

    fn installed(self, context: &Context, wanted: &Wanted) -> Result<Found, Error> {
        match self {
            Self::Apt => dpkg::installed(context, wanted.name),
            Self::Dnf => dnf::installed(context, wanted),
        }
    }

    /// The newest version, if it is not the installed one.
    fn newer(
        self,
        context: &mut Context,
        wanted: &Wanted,
        installed: &str,
    ) -> Result<Option<String>, Error> {
        match self {
            Self::Apt => Ok(dpkg::newest(context, wanted)?.filter(|newest| newest != installed)),
            Self::Dnf => dnf::newer(context, wanted),
        }
    }

    /// Installs the wanted version, and looks whether it is there then.
    fn install(self, context: &mut Context, wanted: &Wanted) -> Result<(), Error> {
        let before = self.installed(context, wanted)?;
        let done = match self {
            Self::Apt => dpkg::install(context, wanted),
            Self::Dnf => dnf::install(context, wanted, before != Found::Nothing),
        };
        if let Err(error) = done {
            // Another package that is broken makes apt fail, though this one is there now.
            let after = self.installed(context, wanted)?;
            let is_done = matches!(&after, Found::Installed(version)
                if wanted.version.is_none_or(|meant| meant == version));
            if after == before || !is_done {
                return Err(error);
            }
            context.warning(&error.to_string());
        }
        let Found::Installed(version) = self.installed(context, wanted)? else {
            return Err(Error::Failed(format!(
                "the package manager ended well, but {} is not installed",
                wanted.name
            )));
        };
        match wanted.version {
            Some(meant) if meant != version => Err(Error::Failed(format!(
                "the package manager ended well, but left version {version} of {}",
                wanted.name
            ))),
            _ => {
                context.info(&format!("{} {version} is installed", wanted.name));
                Ok(())
            }
        }
    }

    /// Removes it, and looks whether it is gone then.
    fn remove(self, context: &mut Context, wanted: &Wanted) -> Result<(), Error> {
        match self {
            Self::Apt => dpkg::remove(context, wanted)?,
            Self::Dnf => dnf::remove(context, wanted)?,
        }
        match self.installed(context, wanted)? {
            Found::Nothing => Ok(()),
            Found::OnlyConfiguration if !wanted.remove_config => Ok(()),
            _ => Err(Error::Failed(format!(
                "the package manager ended well, but {} is still there",
                wanted.name
            ))),
        }
    }
}

/// The name goes into commands: a minus at its end would mean removal to apt.
fn name(desired: &Attributes) -> Result<&str, Error> {
    let name = text(desired, "name");
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "+-._:".contains(letter);
    let is_name = name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && !name.ends_with('-')
        && name.chars().all(is_plain);
    if is_name {
        return Ok(name);
    }
    Err(Error::Failed(format!(
        "`{name}` can not be the name of a package: use letters, digits, `+`, `-`, `.` and `_`"
    )))
}

fn wanted(desired: &Attributes) -> Result<Wanted<'_>, Error> {
    let version = given(desired, "version");
    if let Some(version) = version
        && (version.is_empty() || version.contains(|letter: char| !letter.is_ascii_graphic()))
    {
        return Err(Error::Failed(format!(
            "`version` {version:?} is no version"
        )));
    }
    Ok(Wanted {
        name: name(desired)?,
        version,
        latest: flag(desired, "latest") || text(desired, "state") == "latest",
        recommends: flag(desired, "recommends"),
        // `std::Package` has no such attribute, and means it.
        update_cache: desired.get("update_cache").and_then(Value::as_bool) != Some(false),
        remove_config: flag(desired, "remove_config"),
    })
}

pub(super) struct Package;

impl Handler for Package {
    fn read(
        &self,
        context: &mut Context,
        desired: &Attributes,
    ) -> Result<Option<Attributes>, Error> {
        let (manager, wanted) = (Manager::of(desired)?, wanted(desired)?);
        let version = match manager.installed(context, &wanted)? {
            Found::Nothing => return Ok(None),
            Found::OnlyConfiguration if flag(desired, "purged") && wanted.remove_config => {
                return Ok(Some(Attributes::new()));
            }
            Found::OnlyConfiguration => return Ok(None),
            Found::Broken(state) => {
                return Ok(Some(Attributes::from_iter([(
                    "state".to_owned(),
                    json!(state),
                )])));
            }
            Found::Installed(version) => version,
        };
        let mut current = Attributes::from_iter([("version".to_owned(), json!(version))]);
        if wanted.latest
            && wanted.version.is_none()
            && !flag(desired, "purged")
            && let Some(newer) = manager.newer(context, &wanted, &version)?
        {
            current.insert("newer".to_owned(), json!(newer));
        }
        Ok(Some(current))
    }

    fn compare(&self, current: &Attributes, desired: &Attributes) -> Attributes {
        let mut changes = differences(current, desired);
        if let Some(newer) = current.get("newer") {
            changes.extend([change("version", &current["version"], newer)]);
        }
        if let Some(state) = current.get("state") {
            changes.extend([change("state", state, &json!("installed"))]);
        }
        changes
    }

    fn create(&self, context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        Manager::of(desired)?.install(context, &wanted(desired)?)
    }

    fn update(
        &self,
        context: &mut Context,
        desired: &Attributes,
        _changes: &Attributes,
    ) -> Result<(), Error> {
        Manager::of(desired)?.install(context, &wanted(desired)?)
    }

    fn delete(&self, context: &mut Context, desired: &Attributes) -> Result<(), Error> {
        Manager::of(desired)?.remove(context, &wanted(desired)?)
    }
}

/// With `state`, which is `installed`, `latest` or `removed`, as the only attribute.
pub(super) struct OfStd;

impl Handler for OfStd {
    fn read(
        &self,
        context: &mut Context,
        desired: &Attributes,
    ) -> Result<Option<Attributes>, Error> {
        let (manager, wanted) = (Manager::of(desired)?, wanted(desired)?);
        let found = manager.installed(context, &wanted)?;
        let state = match &found {
            Found::Nothing | Found::OnlyConfiguration => "removed",
            Found::Broken(state) => state,
            Found::Installed(version)
                if wanted.latest && manager.newer(context, &wanted, version)?.is_none() =>
            {
                "latest"
            }
            Found::Installed(_) => "installed",
        };
        Ok(Some(Attributes::from_iter([(
            "state".to_owned(),
            json!(state),
        )])))
    }

    fn create(&self, _context: &mut Context, _desired: &Attributes) -> Result<(), Error> {
        Ok(())
    }

    fn update(
        &self,
        context: &mut Context,
        desired: &Attributes,
        _changes: &Attributes,
    ) -> Result<(), Error> {
        let (manager, wanted) = (Manager::of(desired)?, wanted(desired)?);
        match text(desired, "state") {
            "removed" => manager.remove(context, &wanted),
            _ => manager.install(context, &wanted),
        }
    }

    fn delete(&self, _context: &mut Context, _desired: &Attributes) -> Result<(), Error> {
        Ok(())
    }
}
