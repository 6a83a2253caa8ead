// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

/**
 * The messages of docs/protocol.md, in both JVMs. Values without threads: any thread may use them.
 */
package object wire
