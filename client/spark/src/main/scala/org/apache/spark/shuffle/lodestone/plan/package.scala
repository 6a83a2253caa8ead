// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

/**
 * The messages between driver and executors, plans and reasons. Values without threads: any thread
 * may use them.
 */
package object plan
