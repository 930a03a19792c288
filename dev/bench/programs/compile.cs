// Compiles the same C# file again and again with the compiler that it is given: a large program, busy in many thousand methods.
//
// compile FRAMEWORK_FOLDER SOURCE OUTPUT COMPILER.dll [ARGUMENT...]
// FRAMEWORK_FOLDER has the assemblies to compile against. `count` answers the compilations so far; `failed` those that failed.
using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Threading;

static class Compile
{
    static long compilations;
    static long failed;

    static void Main(string[] arguments)
    {
        TextWriter answers = Console.Out;
        // The compiler's own words are nobody's answer.
        Console.SetOut(TextWriter.Null);
        MethodInfo compiler = Assembly.LoadFrom(arguments[3]).EntryPoint;
        object[] given = { CommandLine(arguments) };
        var once = new ManualResetEventSlim();
        new Thread(() => Work(compiler, given, once), 16 * 1024 * 1024) { IsBackground = true, Name = "compiler" }.Start();
        once.Wait();
        answers.WriteLine("ready");
        answers.Flush();
        for (string line; (line = Console.ReadLine()) != null && line != "quit";)
        {
            answers.WriteLine(line == "count" ? Interlocked.Read(ref compilations).ToString() : line == "failed" ? Interlocked.Read(ref failed).ToString() : "unknown");
            answers.Flush();
        }
    }

    static string[] CommandLine(string[] arguments)
    {
        var line = new List<string>(arguments.Skip(4)) { "-nologo", "-noconfig", "-nostdlib", "-optimize+", "-unsafe", "-langversion:latest", "-out:" + arguments[2] };
        foreach (string file in Directory.GetFiles(arguments[0], "*.dll").Where(IsManaged))
            line.Add("-r:" + file);
        line.Add(arguments[1]);
        return line.ToArray();
    }

    static bool IsManaged(string file)
    {
        try
        {
            AssemblyName.GetAssemblyName(file);
            return true;
        }
        catch (BadImageFormatException)
        {
            return false;
        }
    }

    static void Work(MethodInfo compiler, object[] given, ManualResetEventSlim once)
    {
        while (true)
        {
            object status = compiler.Invoke(null, given);
            if (status is int code && code != 0)
                Interlocked.Increment(ref failed);
            Interlocked.Increment(ref compilations);
            once.Set();
        }
    }
}
