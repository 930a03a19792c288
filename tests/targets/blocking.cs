// Has 25 threads, each blocked for ever in one framework method, called by a method of its own. No caller may be missing from a stack.
//
// blocking
// `methods` answers the names of those methods.
using System;
using System.Collections.Concurrent;
using System.Collections.Generic;
using System.IO;
using System.IO.Pipes;
using System.Linq;
using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Threading;
using System.Threading.Channels;
using System.Threading.Tasks;

static class Blocking
{
    static readonly TaskCompletionSource<int> never = new TaskCompletionSource<int>();
    static readonly object held = new object(), pulsed = new object();
    static readonly ManualResetEvent unset = new ManualResetEvent(false);
    static readonly ManualResetEventSlim unsetSlim = new ManualResetEventSlim(false);
    static readonly SemaphoreSlim empty = new SemaphoreSlim(0);
    static readonly ReaderWriterLockSlim written = new ReaderWriterLockSlim();
    static readonly Channel<int> channel = Channel.CreateUnbounded<int>();
    static readonly Barrier barrier = new Barrier(2);
    static readonly CountdownEvent countdown = new CountdownEvent(1);
    static readonly Lazy<int> lazy = new Lazy<int>(() => Block());
    static readonly BlockingCollection<int> collection = new BlockingCollection<int>();
    static readonly AnonymousPipeServerStream pipe = new AnonymousPipeServerStream(PipeDirection.In);
    static readonly TcpListener listener = new TcpListener(IPAddress.Loopback, 0);
    static CountdownEvent started;

    // Used after each blocking call, so that none is a tail call.
    static int ended;

    static void Main()
    {
        Monitor.Enter(held);
        written.EnterWriteLock();
        listener.Start();
        Action[] all =
        {
            InTaskWait, InGetResult, InTaskResult, InWaitAll, InWaitAny, InEventSlim, InSemaphoreSlim, InJoin, InReadLock, InWriteLock,
            InSpinUntil, InChannel, InWaitOne, InLock, InMonitorWait, InBarrier, InCountdown, InLazy, InSleep, InPipe, InAccept,
            InReceive, InLinq, InParallel, InTake,
        };
        started = new CountdownEvent(all.Length);
        foreach (Action body in all)
            new Thread(() => body()) { IsBackground = true, Name = body.Method.Name }.Start();
        started.Wait();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(line == "methods" ? string.Join(" ", all.Select(body => body.Method.Name)) : "unknown");
    }

    [MethodImpl(MethodImplOptions.NoInlining)] static void InTaskWait() { started.Signal(); never.Task.Wait(); ended++; }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InGetResult() { started.Signal(); ended += never.Task.GetAwaiter().GetResult(); }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InTaskResult() { started.Signal(); ended += never.Task.Result; }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InWaitAll() { started.Signal(); Task.WaitAll(never.Task, never.Task); ended++; }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InWaitAny() { started.Signal(); ended += Task.WaitAny(never.Task, never.Task); }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InEventSlim() { started.Signal(); unsetSlim.Wait(); ended++; }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InSemaphoreSlim() { started.Signal(); empty.Wait(); ended++; }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InJoin() { started.Signal(); Thread.CurrentThread.Join(); ended++; }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InReadLock() { started.Signal(); written.EnterReadLock(); ended++; }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InWriteLock() { started.Signal(); written.EnterWriteLock(); ended++; }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InSpinUntil() { started.Signal(); SpinWait.SpinUntil(() => ended < 0); ended++; }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InChannel() { started.Signal(); ended += channel.Reader.ReadAsync().AsTask().Result; }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InWaitOne() { started.Signal(); unset.WaitOne(); ended++; }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InLock() { started.Signal(); lock (held) ended++; }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InMonitorWait() { lock (pulsed) { started.Signal(); Monitor.Wait(pulsed); ended++; } }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InBarrier() { started.Signal(); barrier.SignalAndWait(); ended++; }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InCountdown() { started.Signal(); countdown.Wait(); ended++; }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InLazy() { started.Signal(); ended += lazy.Value; }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InSleep() { started.Signal(); Thread.Sleep(Timeout.Infinite); ended++; }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InPipe() { started.Signal(); ended += pipe.ReadByte(); }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InAccept() { started.Signal(); listener.AcceptSocket(); ended++; }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InReceive() { Socket socket = Datagrams(); started.Signal(); ended += socket.Receive(new byte[1]); }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InLinq() { started.Signal(); ended += Enumerable.Range(0, 4).Select(i => Block()).Where(i => i >= 0).Sum(); }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InParallel() { started.Signal(); Parallel.For(0, 2, new ParallelOptions { MaxDegreeOfParallelism = 1 }, i => Block()); ended++; }
    [MethodImpl(MethodImplOptions.NoInlining)] static void InTake() { started.Signal(); ended += collection.Take(); }

    static int Block() { unset.WaitOne(); return ended++; }

    static Socket Datagrams()
    {
        var socket = new Socket(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
        socket.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        return socket;
    }
}
