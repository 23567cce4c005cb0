//! How compiles reach the catalog and the inventory of services.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use steward_compiler::{
    ServiceInstances, ServicePurpose, ServiceQuestion, ServicesInput, ServicesOutput,
};

use crate::compile::Services;
use crate::domain::{CompileId, EnvironmentId};
use crate::store::{self, Compile};

#[derive(Debug)]
pub(super) struct Adapter;

impl Services for Adapter {
    fn input<'a>(
        &'a self,
        _: EnvironmentId,
        purpose: &'a ServicePurpose,
        requested: Option<&'a [String]>,
    ) -> BoxFuture<'a, store::Result<ServicesInput>> {
        let input = ServicesInput {
            purpose: purpose.clone(),
            requested: requested.map(<[String]>::to_vec),
            ..ServicesInput::default()
        };
        std::future::ready(Ok(input)).boxed()
    }

    fn ask<'a>(
        &'a self,
        _: EnvironmentId,
        _: ServiceQuestion,
    ) -> BoxFuture<'a, store::Result<ServiceInstances>> {
        std::future::ready(Ok(ServiceInstances::default())).boxed()
    }

    fn apply<'a>(
        &'a self,
        _: EnvironmentId,
        _: CompileId,
        _: &'a ServicesOutput,
    ) -> BoxFuture<'a, store::Result<()>> {
        std::future::ready(Ok(())).boxed()
    }

    fn finished<'a>(
        &'a self,
        _: EnvironmentId,
        _: &'a Compile,
        _: bool,
    ) -> BoxFuture<'a, store::Result<()>> {
        std::future::ready(Ok(())).boxed()
    }
}
