// SPDX-License-Identifier: Apache-2.0
package io.lodestone.conformance;

import java.lang.instrument.ClassFileTransformer;
import java.security.ProtectionDomain;
import org.apache.xbean.asm9.ClassReader;
import org.apache.xbean.asm9.ClassVisitor;
import org.apache.xbean.asm9.ClassWriter;
import org.apache.xbean.asm9.MethodVisitor;
import org.apache.xbean.asm9.Opcodes;

/**
 * A suite starts Spark's external shuffle service, and asks for its port. {@link ServiceDaemon}
 * answers in its place, and learns when the suite ends an application.
 */
final class ServiceTransformer implements ClassFileTransformer {
  private static final String NETWORK = "org/apache/spark/network/";
  private static final String SERVER = NETWORK + "server/TransportServer";
  private static final String HANDLER = NETWORK + "shuffle/ExternalBlockHandler";
  private static final String RPC_HANDLER = "L" + NETWORK + "server/RpcHandler;";
  private static final String DAEMON = ServiceDaemon.class.getName().replace('.', '/');

  @Override
  public byte[] transform(
      ClassLoader loader, String name, Class<?> old, ProtectionDomain domain, byte[] bytes) {
    if (!SERVER.equals(name) && !HANDLER.equals(name)) {
      return null;
    }
    ClassReader reader = new ClassReader(bytes);
    // No branch is added: the stack frames stay as they are.
    ClassWriter writer = new ClassWriter(reader, ClassWriter.COMPUTE_MAXS);
    reader.accept(new MethodChooser(writer), 0);
    return writer.toByteArray();
  }

  private static final class MethodChooser extends ClassVisitor {
    MethodChooser(ClassVisitor next) {
      super(Opcodes.ASM9, next);
    }

    @Override
    public MethodVisitor visitMethod(
        int access, String name, String descriptor, String signature, String[] exceptions) {
      MethodVisitor next = super.visitMethod(access, name, descriptor, signature, exceptions);
      switch (name) {
        case "getPort":
          return new PortVisitor(next);
        case "applicationRemoved":
          return new RemovalVisitor(next);
        default:
          return next;
      }
    }
  }

  /** Before the server returns its port: it may be another one. */
  private static final class PortVisitor extends MethodVisitor {
    PortVisitor(MethodVisitor next) {
      super(Opcodes.ASM9, next);
    }

    @Override
    public void visitInsn(int opcode) {
      if (opcode == Opcodes.IRETURN) {
        super.visitVarInsn(Opcodes.ALOAD, 0);
        super.visitFieldInsn(Opcodes.GETFIELD, SERVER, "appRpcHandler", RPC_HANDLER);
        super.visitInsn(Opcodes.SWAP);
        super.visitMethodInsn(
            Opcodes.INVOKESTATIC, DAEMON, "portOf", "(Ljava/lang/Object;I)I", false);
      }
      super.visitInsn(opcode);
    }
  }

  private static final class RemovalVisitor extends MethodVisitor {
    RemovalVisitor(MethodVisitor next) {
      super(Opcodes.ASM9, next);
    }

    @Override
    public void visitCode() {
      super.visitCode();
      super.visitVarInsn(Opcodes.ALOAD, 1);
      super.visitMethodInsn(
          Opcodes.INVOKESTATIC, DAEMON, "applicationRemoved", "(Ljava/lang/String;)V", false);
    }
  }
}
