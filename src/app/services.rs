//! How compiles reach the catalog and the inventory of services.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use steward_compiler::{
    ServiceInstances, ServicePurpose, ServiceQuestion, ServicesInput, ServicesOutput,
};

use crate::compile::ServiceKeeper;
use crate::domain::{CompileId, EnvironmentId};
use crate::lsm;
use crate::store::{self, Compile};

#[derive(Debug)]
pub(super) struct Adapter(pub(super) lsm::Services);

impl ServiceKeeper for Adapter {
    fn input<'a>(
        &'a self,
        environment: EnvironmentId,
        purpose: &'a ServicePurpose,
        requested: Option<&'a [String]>,
    ) -> BoxFuture<'a, store::Result<ServicesInput>> {
        let requested = requested.map(<[String]>::to_vec);
        let services = &self.0;
        services
            .input(environment, purpose.clone(), requested)
            .boxed()
    }

    fn ask<'a>(
        &'a self,
        _: EnvironmentId,
        _: ServiceQuestion,
    ) -> BoxFuture<'a, store::Result<ServiceInstances>> {
        // Inputs have all instances.
        std::future::ready(Ok(ServiceInstances::default())).boxed()
    }

    fn apply<'a>(
        &'a self,
        environment: EnvironmentId,
        compile: CompileId,
        output: &'a ServicesOutput,
    ) -> BoxFuture<'a, store::Result<()>> {
        let services = &self.0;
        services
            .apply_output(environment, compile.uuid(), output)
            .boxed()
    }

    fn finished<'a>(
        &'a self,
        environment: EnvironmentId,
        compile: &'a Compile,
        has_succeeded: bool,
    ) -> BoxFuture<'a, store::Result<()>> {
        let services = &self.0;
        services
            .compile_finished(environment, compile, has_succeeded)
            .boxed()
    }
}
