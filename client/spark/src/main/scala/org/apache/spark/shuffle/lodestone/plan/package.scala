// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

/**
 * What driver and executors say to each other: messages, plans, reasons. Values without threads:
 * any thread may use them.
 */
package object plan
