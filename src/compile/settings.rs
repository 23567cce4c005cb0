//! The settings of an environment that the project decides. Source: docs/reference/deployment.md § 1.5.

use serde_json::{Map, Value};
use steward_compiler::yaml::{self, LIMITS};

use crate::domain::check_setting;

/// What may decide settings, as the store has it; the reference has no other.
pub const PROJECT_FILE: &str = "project.yml";

/// The settings below `environment_settings` of a `project.yml`, as they are there.
///
/// # Errors
/// It is no YAML, or they are no object.
pub fn project_settings(text: &str) -> Result<Map<String, Value>, String> {
    #[derive(serde::Deserialize)]
    struct Project {
        environment_settings: Option<Map<String, Value>>,
    }
    let read: Project =
        yaml::from_str(text, &LIMITS).map_err(|error| format!("{PROJECT_FILE}: {error}"))?;
    Ok(read.environment_settings.unwrap_or_default())
}

/// The settings with their values in the form that the store has.
///
/// # Errors
/// Which is unknown, or has a value that it cannot have.
pub(super) fn checked(settings: &Map<String, Value>) -> Result<Vec<(String, Value)>, String> {
    let check = |(name, value): (&String, &Value)| {
        let value = check_setting(name, value)
            .map_err(|error| format!("environment_settings of {PROJECT_FILE}: {error}"))?;
        Ok((name.clone(), value))
    };
    settings.iter().map(check).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_a_project_are_read_and_checked_by_name() {
        let text = "name: p\nenvironment_settings:\n  available_versions_to_keep: 7\n  auto_deploy: false\n";
        let checked_settings = checked(&project_settings(text).unwrap()).unwrap();
        assert_eq!(checked_settings.len(), 2, "{checked_settings:?}");
        assert!(project_settings("name: p\n").unwrap().is_empty());
        let wrong = project_settings("environment_settings: {no_such: 1}\n").unwrap();
        assert!(checked(&wrong).unwrap_err().contains("no_such"));
        let wrong = project_settings("environment_settings: {auto_deploy: maybe}\n").unwrap();
        assert!(checked(&wrong).unwrap_err().contains("auto_deploy"));
        assert!(project_settings("environment_settings: [1]\n").is_err());
    }
}
