// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

/**
 * Runs in the driver. One event loop owns all state; Spark's threads and answers of services send
 * it events. On other threads: [[loss.ShownOutputs]] looks at bytes on network threads, two threads
 * look up names and executors, metrics read the sums of the report, and Spark's threads ask
 * [[plans.MergeChoice]] for an obstacle.
 */
package object driver
