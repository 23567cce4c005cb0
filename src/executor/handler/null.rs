//! `std::testing::NullResource` and `std::AgentConfig`: resources that touch nothing.

use serde_json::json;

use super::{Attributes, Context, Error, Handler, flag};

pub(super) struct NullResource;

impl Handler for NullResource {
    fn read(
        &self,
        context: &mut Context,
        desired: &Attributes,
    ) -> Result<Option<Attributes>, Error> {
        if flag(desired, "fail") {
            return Err(Error::Failed("this resource is set to fail".to_owned()));
        }
        let value = desired.get("value").cloned().unwrap_or_default();
        context.debug(&format!("Observed value: {value}"));
        Ok(if flag(desired, "purged") {
            None
        } else {
            Some(Attributes::new())
        })
    }

    fn ignores_attributes(&self) -> bool {
        true
    }

    fn create(&self, _context: &mut Context, _desired: &Attributes) -> Result<(), Error> {
        Ok(())
    }

    fn update(
        &self,
        _context: &mut Context,
        _desired: &Attributes,
        _changes: &Attributes,
    ) -> Result<(), Error> {
        Ok(())
    }

    fn delete(&self, _context: &mut Context, _desired: &Attributes) -> Result<(), Error> {
        Ok(())
    }
}

/// There is no map of autostarted agents to edit: every agent is started when it is needed.
pub(super) struct AgentConfig;

impl Handler for AgentConfig {
    fn read(
        &self,
        context: &mut Context,
        desired: &Attributes,
    ) -> Result<Option<Attributes>, Error> {
        context.info("std::AgentConfig has no effect on this server; the resource can be removed from the model");
        Ok(if flag(desired, "purged") {
            None
        } else {
            Some(Attributes::from_iter([(
                "uri".to_owned(),
                json!(desired.get("uri")),
            )]))
        })
    }

    fn ignores_attributes(&self) -> bool {
        true
    }

    fn create(&self, _context: &mut Context, _desired: &Attributes) -> Result<(), Error> {
        Ok(())
    }

    fn update(
        &self,
        _context: &mut Context,
        _desired: &Attributes,
        _changes: &Attributes,
    ) -> Result<(), Error> {
        Ok(())
    }

    fn delete(&self, _context: &mut Context, _desired: &Attributes) -> Result<(), Error> {
        Ok(())
    }
}
