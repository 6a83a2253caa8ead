// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

/**
 * Runs in the driver. One event loop owns all state; Spark's threads and answers of services send
 * it events. Only [[loss.ShownOutputs]] looks at bytes on a network thread.
 */
package object driver
