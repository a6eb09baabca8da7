//! Main loop of the worker process: executes requests on its GPU until the pipe closes.

use std::io::{self, Read, Write};

use thiserror::Error;

use super::protocol::{VERSION, WorkerRequest, WorkerResponse};
use super::session::DeviceSession;
use crate::gpu::{GpuError, device_count};
use crate::process::{ParentPipe, read_frame, write_frame};

/// Reason that a worker ended before its pipe was closed.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The pipe to the parent broke or delivered garbage.
    #[error("the pipe to the parent failed: {0}")]
    Pipe(#[from] io::Error),
    /// The first message was not the one that opens a device.
    #[error("the parent's first message does not open a device")]
    Unopened,
}

/// Serves requests from standard input until it closes: the main function of a worker.
///
/// # Errors
/// See [`ServeError`]; device errors are responses, not errors.
pub fn serve() -> Result<(), ServeError> {
    let ParentPipe { mut input, mut output } = ParentPipe::open()?;
    converse(&mut input, &mut output)
}

fn converse(input: &mut impl Read, out: &mut impl Write) -> Result<(), ServeError> {
    let Some((WorkerRequest::Open { version: _, ordinal, libraries }, _)) = read_frame(input)?
    else {
        return Err(ServeError::Unopened);
    };
    let mut session = match DeviceSession::open(ordinal, libraries) {
        Ok(session) => session,
        Err(error) => return Ok(write_frame(out, &failed(&error), &[])?),
    };
    let device = Box::new(session.device().clone());
    // Cannot fail after a device was opened.
    let devices = device_count().unwrap_or(1);
    write_frame(out, &WorkerResponse::Opened { version: VERSION, device, devices }, &[])?;
    while let Some((request, body)) = read_frame::<WorkerRequest>(input)? {
        let (response, bytes) = match session.answer(request, &body) {
            Ok(answer) => answer,
            Err(error) => (failed(&error), Vec::new()),
        };
        write_frame(out, &response, &bytes)?;
    }
    Ok(())
}

fn failed(error: &GpuError) -> WorkerResponse {
    match error {
        _ if error.is_out_of_memory() => WorkerResponse::OutOfMemory { message: error.to_string() },
        _ if error.is_absence() => WorkerResponse::NoDevice { message: error.to_string() },
        _ => WorkerResponse::Failed { message: error.to_string(), sticky: error.is_sticky() },
    }
}
