// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

/**
 * Requests to services, with their time-outs and retries, in both JVMs. Callbacks run on network
 * threads, on threads that connect, or on the timer's thread, and must not block.
 */
package object transport
