// A command line for the C# compiler that is a library: csc.dll ROSLYN_FOLDER OPTION... FILE...
//
// Debian's mcs compiles this file, and mcs cannot read today's framework assemblies or Roslyn's own.
// So the compiler is reached late: types by name, members through `dynamic`.
// It understands the options of csc itself, because Roslyn's own parser reads them.
using System;
using System.Collections;
using System.IO;
using System.Linq;
using System.Reflection;
using System.Runtime.Loader;

static class Csc
{
    static Assembly core;
    static Assembly csharp;

    static int Main(string[] arguments)
    {
        string roslyn = Path.GetFullPath(arguments[0]);
        AssemblyLoadContext.Default.Resolving += (context, name) =>
        {
            string file = Path.Combine(roslyn, name.Name + ".dll");
            return File.Exists(file) ? context.LoadFromAssemblyPath(file) : null;
        };
        core = AssemblyLoadContext.Default.LoadFromAssemblyPath(Path.Combine(roslyn, "Microsoft.CodeAnalysis.dll"));
        csharp = AssemblyLoadContext.Default.LoadFromAssemblyPath(Path.Combine(roslyn, "Microsoft.CodeAnalysis.CSharp.dll"));

        dynamic parser = csharp.GetType("Microsoft.CodeAnalysis.CSharp.CSharpCommandLineParser").GetProperty("Default").GetValue(null);
        dynamic options = parser.Parse(arguments.Skip(1).ToArray(), Directory.GetCurrentDirectory(), null, null);
        if (Report(options.Errors))
            return 2;
        dynamic compilation = Create(options);
        return Emit(compilation, options);
    }

    /// The compilation that the options describe.
    static object Create(dynamic options)
    {
        object[] trees = ((IEnumerable)options.SourceFiles).Cast<object>().Select(file => (object)Parse(file, options)).ToArray();
        object[] references = ((IEnumerable)options.MetadataReferences).Cast<object>().Select(item => (object)Reference(item)).ToArray();
        MethodInfo create = csharp.GetType("Microsoft.CodeAnalysis.CSharp.CSharpCompilation").GetMethod("Create");
        return create.Invoke(null, new object[]
        {
            Path.GetFileNameWithoutExtension((string)options.OutputFileName),
            Typed("Microsoft.CodeAnalysis.SyntaxTree", trees),
            Typed("Microsoft.CodeAnalysis.MetadataReference", references),
            options.CompilationOptions,
        });
    }

    /// One parsed file. Its name in the debug information is relative, so that the result is the same on every machine.
    static object Parse(dynamic file, dynamic options)
    {
        string path = file.Path;
        string shown = Path.GetRelativePath(Directory.GetCurrentDirectory(), path);
        MethodInfo read = core.GetType("Microsoft.CodeAnalysis.Text.SourceText").GetMethods().First(method =>
            method.Name == "From" && method.GetParameters()[0].ParameterType == typeof(Stream));
        object sha256 = Enum.Parse(core.GetType("Microsoft.CodeAnalysis.Text.SourceHashAlgorithm"), "Sha256");
        MethodInfo parse = csharp.GetType("Microsoft.CodeAnalysis.CSharp.CSharpSyntaxTree").GetMethods().First(method =>
            method.Name == "ParseText" && method.GetParameters()[0].ParameterType == read.DeclaringType);
        using (Stream bytes = File.OpenRead(path))
            return Invoke(parse, Invoke(read, bytes, sha256), (object)options.ParseOptions, shown);
    }

    static object Reference(dynamic reference)
    {
        MethodInfo create = core.GetType("Microsoft.CodeAnalysis.MetadataReference").GetMethods().First(method =>
            method.Name == "CreateFromFile" && method.GetParameters()[0].ParameterType == typeof(string));
        return Invoke(create, (string)reference.Reference);
    }

    /// Writes the assembly and, beside it, its debug information.
    static int Emit(dynamic compilation, dynamic options)
    {
        string assembly = Path.Combine((string)options.OutputDirectory, (string)options.OutputFileName);
        Type formats = core.GetType("Microsoft.CodeAnalysis.Emit.DebugInformationFormat");
        dynamic emitOptions = options.EmitOptions.WithDebugInformationFormat((dynamic)Enum.Parse(formats, "PortablePdb"));
        MethodInfo emit = core.GetType("Microsoft.CodeAnalysis.Compilation").GetMethods()
            .Where(method => method.Name == "Emit").OrderByDescending(method => method.GetParameters().Length).First();
        dynamic result;
        using (Stream code = File.Create(assembly))
        using (Stream symbols = File.Create(Path.ChangeExtension(assembly, ".pdb")))
            result = InvokeOn(emit, compilation, code, symbols, (object)emitOptions);
        Report(result.Diagnostics);
        return result.Success ? 0 : 1;
    }

    /// Shows errors and warnings; whether there was an error.
    static bool Report(dynamic diagnostics)
    {
        bool failed = false;
        foreach (object diagnostic in (IEnumerable)diagnostics)
        {
            string text = diagnostic.ToString();
            if (text.Contains("hidden "))
                continue;
            Console.WriteLine(text);
            failed |= text.Contains("error ");
        }
        return failed;
    }

    static Array Typed(string type, object[] items)
    {
        Array array = Array.CreateInstance(core.GetType(type), items.Length);
        items.CopyTo(array, 0);
        return array;
    }

    static object Invoke(MethodInfo method, params object[] given)
    {
        return InvokeOn(method, null, given);
    }

    /// Calls `method` with `given` in the places whose types fit, in order, and the default in every other place.
    static object InvokeOn(MethodInfo method, object self, params object[] given)
    {
        ParameterInfo[] parameters = method.GetParameters();
        object[] all = new object[parameters.Length];
        int next = 0;
        for (int i = 0; i < all.Length; i++)
        {
            if (next < given.Length && parameters[i].ParameterType.IsInstanceOfType(given[next]))
                all[i] = given[next++];
            else if (parameters[i].HasDefaultValue && parameters[i].DefaultValue != null)
                all[i] = parameters[i].DefaultValue;
            else if (parameters[i].ParameterType.IsValueType)
                all[i] = Activator.CreateInstance(parameters[i].ParameterType);
        }
        if (next != given.Length)
            throw new MissingMethodException(method.ToString());
        return method.Invoke(self, all);
    }
}
