//! TODO

pub(super) mod agent;
pub(super) mod bounds;
pub(super) mod code_folder;
pub(super) mod handler;
pub(super) mod link;
pub(super) mod native;
pub(super) mod output_capture;
pub(super) mod process;
pub(super) mod python;
pub(super) mod replies;
