//! Ways to say "look again": file events here, webhooks in `api`, polls in the compile loop itself.

pub mod local;
