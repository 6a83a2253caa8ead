// SPDX-License-Identifier: Apache-2.0
//! The command line.

pub mod address;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use lodestone_units::duration;

use crate::config::ServeArgs;
use address::LogAddress;

/// The version. A release says its commit too: `make release` gives the text.
const VERSION: &str = match option_env!("LODESTONE_RELEASE") {
    Some(release) => release,
    None => concat!(env!("CARGO_PKG_VERSION"), " (not a release)"),
};

/// A shuffle service for Apache Spark: merges the blocks that map tasks push, so that reducers read
/// a few large chunks instead of many small blocks.
#[derive(Debug, Parser)]
#[command(name = "lodestone", version = VERSION, arg_required_else_help = true)]
pub struct Command {
    /// The command to run.
    #[command(subcommand)]
    pub verb: Verb,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Run the daemon. It prints one line on stdout when it is ready, and logs to stderr.
    ///
    /// SIGTERM or SIGINT end it cleanly: it writes out remote shuffles and hands them over to the
    /// next daemon on the same directories, answers the requests in work, and removes its other
    /// files. Example: lodestone serve --dir /disk1/lodestone,/disk2/lodestone --memory 4g
    Serve(Box<ServeArgs>),
    /// Show the outcome of an application's shuffles, and the reasons.
    ///
    /// Drivers report to the services that they use, and these keep the report after the
    /// application's end. It is also in Spark's event log, which outlives the services. Examples:
    /// lodestone explain app-20260101120000-0000 --service host1:7337,host2:7337; lodestone explain
    /// --event-log /logs/app-20260101120000-0000
    Explain(ExplainArgs),
    /// Show what Lodestone would have done with an application of plain Spark.
    ///
    /// Reads the event log that Spark wrote (spark.eventLog.enabled): how many blocks would be
    /// merged, how many reads and seconds are saved or lost, and how much memory and disk services
    /// need. It needs no service and no plugin. Example: lodestone plan --event-log
    /// /logs/app-20260101120000-0000
    Plan(PlanArgs),
    /// Drain a service, so that it can end without a loss.
    ///
    /// From now on it takes nothing new, and writes out the data in memory. It serves the data that
    /// exists nowhere else (remote shuffles, files of executors that Spark reads through it) until
    /// no application needs it, and then ends. Exits with 0 if the service has ended and nothing is
    /// lost (with --cancel: as soon as it takes new work), with 1 otherwise. Run it on the host of
    /// the service, for instance as a container's preStop hook. Example: lodestone drain --timeout
    /// 30m
    Drain(DrainArgs),
    /// Tell a service that an application has ended.
    ///
    /// It drops all that it holds of the application, and forgets its executors. Drivers with the
    /// plugin say this themselves; stock Spark does not, and its cluster can. Exits with 3 if it
    /// held nothing of the application. Run it on the host of the service. Example: lodestone end
    /// application_1700000000000_0001
    End(EndArgs),
    /// Look for what keeps shuffles from Lodestone, before a job or after it.
    ///
    /// Prints a line for each check: what it found, and what to do. Exits with 0 if there is
    /// neither a warning nor an error, with 1 if there are warnings, and with 2 if there are
    /// errors. It changes nothing; in directories that --dir names it measures the speed of the
    /// disk with up to 64 MiB in a file without a name. Examples: lodestone doctor --conf
    /// $SPARK_HOME/conf/spark-defaults.conf --conf spark.master=yarn; lodestone doctor --services
    /// host1:7337,host2:7337; lodestone doctor --dir /disk1/lodestone --memory 4g; lodestone
    /// doctor --event-log /logs/app-20260101120000-0000
    Doctor(Box<DoctorArgs>),
    /// Print the keys of Spark that switch Lodestone on.
    ///
    /// They name the plugin jar beside this program, which must be at the same path on every
    /// machine of the cluster. Example: spark-submit $(lodestone conf --spark 4.1.4) your-job.jar
    Conf(ConfArgs),
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Spark's application id. Without it, the command lists the applications of the services
    #[arg(value_name = "APP", group = "one")]
    pub app: Option<String>,
    /// Spark's event log of an application in place of services: a file, the directory of a rolling
    /// log, or the address of the application's page in a History Server. Given twice, it also
    /// compares the two applications
    #[arg(
        long = "event-log",
        value_name = "PATH|URL",
        group = "one",
        conflicts_with = "services"
    )]
    pub event_logs: Vec<LogAddress>,
    /// The services to ask; the newest report is shown
    #[arg(
        long = "service",
        value_name = "HOST:PORT[,HOST:PORT...]",
        value_delimiter = ',',
        default_value = "127.0.0.1:7337"
    )]
    pub services: Vec<String>,
    /// Print the report as the driver made it
    #[arg(long, requires = "one")]
    pub json: bool,
    /// File with the secret of the application, or directory with a file of its id, as the services
    /// have it
    #[arg(long, value_name = "PATH", requires = "app")]
    pub secrets: Option<PathBuf>,
}

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Spark's settings: a spark-defaults.conf, or one setting. May be given several times; the
    /// last value of a key counts
    #[arg(long, value_name = "FILE|KEY=VALUE")]
    pub conf: Vec<String>,
    /// The services to ask, in the form of spark.lodestone.services [default: those of the
    /// settings]
    #[arg(long, value_name = "HOST:PORT[,HOST:PORT...]")]
    pub services: Option<String>,
    /// The port at which the HTTP endpoints of these services listen (`lodestone serve --admin`),
    /// which say their time
    #[arg(long, value_name = "PORT", default_value_t = 7338)]
    pub admin_port: u16,
    /// Spark's event log of an application that has run: a file, the directory of a rolling log, or
    /// the address of the application's page in a History Server
    #[arg(long, value_name = "PATH|URL")]
    pub event_log: Option<LogAddress>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// The daemon that shall run on this host
    #[command(
        flatten,
        next_help_heading = "With --dir or --config: this host is checked for `lodestone serve` \
                             with these flags"
    )]
    pub daemon: ServeArgs,
}

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// The event log of an application that ran on plain Spark: a file, the directory of a rolling
    /// log, or the address of the application's page in a History Server, as in
    /// http://host:18080/history/app-20260101120000-0000/jobs/
    #[arg(long, value_name = "PATH|URL")]
    pub event_log: LogAddress,
    /// How many services there would be; they share the data
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=1000)
    )]
    pub services: u32,
    /// The disks of the executors: hdd if a small read takes 2 ms or more
    #[arg(long, value_name = "KIND", default_value = "ssd")]
    pub disk: Disk,
    /// Print the plan as JSON, with every shuffle
    #[arg(long)]
    pub json: bool,
}

/// Kinds of disks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Disk {
    /// A solid-state disk, or data in the page cache.
    Ssd,
    /// A disk with a head, or a network disk as slow as one.
    Hdd,
}

impl Disk {
    /// Returns the value on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ssd => "ssd",
            Self::Hdd => "hdd",
        }
    }
}

/// Arguments of `drain`.
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// The service
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7337")]
    pub service: String,
    /// Give up after this long, such as 30m; the service stays drained [default: never]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub timeout: Option<Duration>,
    /// Let the service take new work again
    #[arg(long, conflicts_with = "timeout")]
    pub cancel: bool,
}

/// Arguments of `end`.
#[derive(Debug, Args)]
pub struct EndArgs {
    /// Spark's application id, or with the number of a driver, as logs have it, what this driver
    /// has
    #[arg(value_name = "APP")]
    pub app: String,
    /// The service
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:7337")]
    pub service: String,
}

/// Arguments of `conf`.
#[derive(Debug, Args)]
pub struct ConfArgs {
    /// The version of Spark, such as 4.1.4 [default: of the Spark in $SPARK_HOME]
    #[arg(long, value_name = "VERSION")]
    pub spark: Option<String>,
    /// The Scala of this Spark [default: of the Spark in $SPARK_HOME, or what PySpark has: 2.12 for
    /// Spark 3.5, 2.13 for Spark 4]
    #[arg(long, value_name = "VERSION")]
    pub scala: Option<Scala>,
    /// The mode [default: none is printed, and the plugin takes auto]
    #[arg(long, value_name = "MODE")]
    pub mode: Option<Mode>,
    /// The plugin jar as executors and driver find it [default: that of this installation]
    #[arg(long, value_name = "PATH")]
    pub jar: Option<String>,
    /// The form of the output
    #[arg(long, value_name = "FORM", default_value = "submit")]
    pub format: Form,
}

/// The releases of Scala that Spark is built with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scala {
    /// Scala 2.12.
    #[value(name = "2.12")]
    V212,
    /// Scala 2.13.
    #[value(name = "2.13")]
    V213,
}

impl Scala {
    /// The number of the release.
    pub fn number(self) -> &'static str {
        match self {
            Self::V212 => "2.12",
            Self::V213 => "2.13",
        }
    }
}

/// Values of `spark.lodestone.mode`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Shuffles that gain by it are merged.
    Auto,
    /// Every shuffle is merged.
    Merge,
    /// Only services keep shuffle data.
    Remote,
}

/// Forms in which keys of Spark are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Form {
    /// Options of spark-submit.
    Submit,
    /// Lines of spark-defaults.conf.
    Properties,
    /// One JSON object, from keys to values.
    Json,
}
