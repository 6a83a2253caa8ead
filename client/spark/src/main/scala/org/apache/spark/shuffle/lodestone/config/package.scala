// SPDX-License-Identifier: Apache-2.0
package org.apache.spark.shuffle.lodestone

/** The keys of the plugin, in both JVMs. They are read once, and do not change. */
package object config
