//! The bucket table: golden cases, models, threads, processes.

mod cases;
mod fixture;
mod leased;
mod mapped;
mod models;
mod processes;
mod threads;
