// Ends in the way it is told to, with threads busy: what is left of a recording when its target goes.
//
// crash
// `segfault`, `abort`, `failfast`, `throw`, `overflow`, `kill`, `exit` and `exec` end it (exec becomes `cat`); `count` answers the operations so far.
using System;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Threading;

static class Crash
{
    static long operations;

    [DllImport("libc")]
    static extern IntPtr memset(IntPtr destination, int value, IntPtr length);

    [DllImport("libc")]
    static extern void abort();

    [DllImport("libc")]
    static extern int raise(int signal);

    [DllImport("libc")]
    static extern int execv(string path, string[] arguments);

    static void Main()
    {
        for (int i = 0; i < 2; i++)
            new Thread(Work) { IsBackground = true, Name = "busy" }.Start();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(Obey(line));
    }

    static string Obey(string order)
    {
        switch (order)
        {
            case "count": return Interlocked.Read(ref operations).ToString();
            case "segfault": memset((IntPtr)16, 0, (IntPtr)1); break;
            case "abort": abort(); break;
            case "failfast": Environment.FailFast("told to"); break;
            case "throw": new Thread(() => throw new InvalidOperationException("told to")).Start(); break;
            case "overflow": Overflow(0); break;
            case "kill": raise(9); break;
            case "exit": Environment.Exit(7); break;
            case "exec": execv("/bin/cat", new[] { "cat", null }); break;
            default: return "unknown";
        }
        return "alive";
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    static int Overflow(int depth) => Overflow(depth + 1) + Overflow(depth + 2);

    [MethodImpl(MethodImplOptions.NoInlining)]
    static void Work()
    {
        while (true)
        {
            uint state = 1;
            for (int i = 0; i < 10000; i++)
                state = state * 1664525 + 1013904223;
            if (state != 0)
                Interlocked.Increment(ref operations);
        }
    }
}
