// Native threads that block every signal, or wait in system calls that a signal ends early; and children that tell what they inherited.
//
// masked PATH_OF_LIBMASKED
// `block works` and `block waits` start a thread that blocks every signal and works, or waits for any signal; `hear` makes the former block none; `wait` starts threads that sleep, poll and read.
// `turns`, `met`, `naps`, `polls`, `reads`, `cut` (naps ended early) and `wrong` answer the counters; `count` answers the operations of a busy managed thread.
// `sleep N` sleeps N times 5 ms and answers how many of the sleeps were too short.
// `fork SIGNAL` forks a child without exec that writes a byte for each SIGNAL that it gets, and answers its id; `heard` waits for such a byte.
// `child` runs a child that tells its signals and descriptors: one line `SigIgn SigBlk SigCgt TIMERS DESCRIPTOR...`.
using System;
using System.Diagnostics;
using System.IO;
using System.Runtime.InteropServices;
using System.Threading;

static class Masked
{
    static long operations;

    [DllImport("masked")]
    static extern int masked_block(int waitsForSignals);

    [DllImport("masked")]
    static extern int masked_hear();

    [DllImport("masked")]
    static extern int masked_wait();

    [DllImport("masked")]
    static extern long masked_count(int which);

    [DllImport("masked")]
    static extern int masked_fork(int signal);

    [DllImport("masked")]
    static extern int masked_heard();

    static void Main(string[] arguments)
    {
        string path = arguments[0];
        NativeLibrary.SetDllImportResolver(typeof(Masked).Assembly, (name, assembly, search) =>
            name == "masked" ? NativeLibrary.Load(path) : IntPtr.Zero);
        // The runtime handles SIGINT and others from the first use of the console on, SIGCHLD from the first child on.
        _ = Console.In;
        Child();
        new Thread(Work) { IsBackground = true, Name = "busy" }.Start();
        Console.WriteLine("ready");
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
            Console.WriteLine(Answer(line));
    }

    static string Answer(string question)
    {
        switch (question)
        {
            case "count": return Interlocked.Read(ref operations).ToString();
            case "block works": return masked_block(0).ToString();
            case "block waits": return masked_block(1).ToString();
            case "hear": return masked_hear().ToString();
            case "wait": return masked_wait().ToString();
            case "heard": return masked_heard().ToString();
            case "child": return Child();
        }
        if (question.StartsWith("fork "))
            return masked_fork(int.Parse(question.Substring(5))).ToString();
        int counter = Array.IndexOf(new[] { "turns", "met", "naps", "polls", "reads", "cut", "wrong" }, question);
        if (counter >= 0)
            return masked_count(counter).ToString();
        return question.StartsWith("sleep ") ? Sleep(int.Parse(question.Substring(6))).ToString() : "unknown";
    }

    /// What /proc says about a child: of `cat` itself, and of the descriptors of a second one.
    static string Child()
    {
        string status = Run("/bin/cat", "/proc/self/status"), timers = Run("/bin/cat", "/proc/self/timers");
        string signals = "";
        foreach (string name in new[] { "SigIgn:", "SigBlk:", "SigCgt:" })
            foreach (string line in status.Split('\n'))
                if (line.StartsWith(name))
                    signals += line.Substring(name.Length).Trim() + " ";
        string descriptors = Run("/bin/ls", "-l /proc/self/fd").Replace('\n', ';');
        return signals + timers.Split(new[] { "ID:" }, StringSplitOptions.None).Length.ToString() + " " + descriptors;
    }

    static string Run(string program, string argument)
    {
        var start = new ProcessStartInfo(program, argument) { RedirectStandardOutput = true, UseShellExecute = false };
        using (Process child = Process.Start(start))
        {
            string said = child.StandardOutput.ReadToEnd();
            child.WaitForExit();
            return child.ExitCode == 0 ? said : throw new InvalidOperationException(program + " ended with " + child.ExitCode);
        }
    }

    static int Sleep(int times)
    {
        int tooShort = 0;
        for (int i = 0; i < times; i++)
        {
            long start = Stopwatch.GetTimestamp();
            Thread.Sleep(5);
            if ((Stopwatch.GetTimestamp() - start) * 1000.0 / Stopwatch.Frequency < 4.9)
                tooShort++;
        }
        return tooShort;
    }

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
